// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// Puts the elements of heads from one pairing into the other, in place: for rotations in place with
// two pairings whose frequencies do not fit one launch. A block takes a head; its rotary slice
// passes through shared memory.
#pragma once

#include <cstdint>

#include "cuda/device/blocks.cuh"
#include "cuda/device/operands.cuh"
#include "cuda/params.h"

namespace rotary::internal::cuda {

/// Where element i of the rotary slice, counted in the pairing `from`, lies in the other pairing.
__device__ __forceinline__ std::int32_t other_place(Pairing from, std::int32_t i,
                                                    std::int32_t pairs) {
  if (from == Pairing::kHalf) return i < pairs ? 2 * i : 2 * (i - pairs) + 1;
  return i / 2 + (i % 2) * pairs;
}

/// Blocks run over tokens, batch rows and heads. `Storage` has the size of an element.
template <typename Storage>
__global__ void __launch_bounds__(256) reorder_heads(const __grid_constant__ RotateParams p) {
  extern __shared__ __align__(16) unsigned char memory[];
  auto* const slice = reinterpret_cast<Storage*>(memory);  // [2 * pairs], as it will be written
  const TokenHeads heads(p, blockIdx.y, blockIdx.x);
  const Head<char*> head = heads.out(static_cast<std::int32_t>(blockIdx.z));
  char* const data = head.data + p.rotary_offset * head.element;
  const auto first = static_cast<std::int32_t>(threadIdx.x);
  const auto step = static_cast<std::int32_t>(blockDim.x);
  if (p.overlaps) let_next_launch_begin();
  wait_for_previous_launch();
  for (std::int32_t i = first; i < 2 * p.pairs; i += step) {
    slice[other_place(p.read, i, p.pairs)] =
        *reinterpret_cast<const Storage*>(data + i * head.element);
  }
  __syncthreads();
  for (std::int32_t i = first; i < 2 * p.pairs; i += step) {
    *reinterpret_cast<Storage*>(data + i * head.element) = slice[i];
  }
}

}  // namespace rotary::internal::cuda
