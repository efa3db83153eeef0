// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// Starting the tuned rotation.
#pragma once

#include <cuda_runtime.h>

#include <cstddef>

#include "cuda/device/rotate_packs.cuh"
#include "cuda/launch_kernel.cuh"
#include "cuda/pack_params.h"

namespace rotary::internal::cuda {

/// A block of `shape` is whole warps, as lanes that exchange packs need it.
inline bool has_whole_warps(const PackParams& packs, const PackShape& shape) noexcept {
  return packs.units * shape.rows * shape.depth % 32 == 0;
}

template <class Unit, class Build>
cudaError_t launch_shape(const SimpleParams& p, const PackShape& shape, const PackParams& packs,
                         cudaStream_t stream) noexcept {
  const dim3 grid(static_cast<unsigned>(shape.tiles), static_cast<unsigned>(p.batch),
                  static_cast<unsigned>(shape.shares));
  const dim3 block(static_cast<unsigned>(packs.units), static_cast<unsigned>(shape.rows),
                   static_cast<unsigned>(shape.depth));
  const std::size_t shared = static_cast<std::size_t>(shape.depth) * 2 *
                             static_cast<std::size_t>(packs.row_size) * sizeof(float);
  return launch_kernel(rotate_packs<Unit, Build>, packs, grid, block, shared, p.overlaps, stream);
}

/// `tokens` of a block, of the operand with more heads.
template <class Unit, class Build>
cudaError_t launch_packs(const SimpleParams& p, int tokens, PackParams& packs,
                         cudaStream_t stream) noexcept {
  const PackShape shape = shape_packs(p, Build::kHeads, Build::kThreads, tokens, packs);
  return launch_shape<Unit, Build>(p, shape, packs, stream);
}

/// Halves exchanged between lanes. False, and `packs` as it was, where they cannot be.
template <class Unit, class Build>
bool launch_exchanged(const SimpleParams& p, PackParams& packs, cudaStream_t stream,
                      cudaError_t& error) noexcept {
  if (!make_exchanged(p, packs)) return false;
  const PackShape shape = shape_packs(p, Build::kHeads, Build::kThreads, 1, packs);
  if (has_whole_warps(packs, shape)) {
    error = launch_shape<Unit, Build>(p, shape, packs, stream);
    return true;
  }
  packs.units /= 2;
  return false;
}

}  // namespace rotary::internal::cuda
