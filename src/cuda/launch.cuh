// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// Starting the kernel that rotates anything.
#pragma once

#include <cuda_runtime.h>

#include <cstddef>

#include "cuda/device/rotate.cuh"
#include "cuda/launch_kernel.cuh"
#include "cuda/rotate_float8.h"
#include "cuda/shape.h"

namespace rotary::internal::cuda {

/// The kernel that does anything, one head a thread.
template <class Unit, class Params>
cudaError_t launch_unit(const Params& p, cudaStream_t stream) noexcept {
  using One = Build<1, false, 512, 1>;
  const Shape shape = make_shape(p, p.pair_count / Unit::kPairs, 1, One::kThreads, 1, 1);
  const std::size_t shared = static_cast<std::size_t>(shape.tokens) * 2 *
                             padded_pairs(static_cast<std::uint32_t>(p.pair_count)) *
                             sizeof(typename Unit::T);
  const auto tiles = (p.tokens + shape.tokens - 1) / shape.tokens;
  const dim3 grid(static_cast<unsigned>(tiles), static_cast<unsigned>(p.batch),
                  static_cast<unsigned>(shape.shares));
  const dim3 block(static_cast<unsigned>(shape.units), static_cast<unsigned>(shape.rows),
                   static_cast<unsigned>(shape.tokens));
  return launch_kernel(rotate_heads<Unit, One, Params>, p, grid, block, shared, p.overlaps, stream);
}

template <class Element, class Params>
cudaError_t launch_mixed(const Params& p, cudaStream_t stream) noexcept {
  if (p.read == Pairing::kHalf) {
    return launch_unit<TwoPackUnit<Element, Pairing::kHalf, Pairing::kInterleaved>>(p, stream);
  }
  return launch_unit<TwoPackUnit<Element, Pairing::kInterleaved, Pairing::kHalf>>(p, stream);
}

/// Whatever the layout; mixed pairings element by element.
template <class Element, class Params>
cudaError_t launch_untuned(const Params& p, cudaStream_t stream) noexcept {
  switch (layout_of(p)) {
    case Layout::kHalf:
      return launch_unit<TwoPackUnit<Element, Pairing::kHalf, Pairing::kHalf>>(p, stream);
    case Layout::kNeighbours:
      return launch_unit<NeighbourUnit<Element>>(p, stream);
    default:
      return launch_unit<PairUnit<Element>>(p, stream);
  }
}

template <class Params>
cudaError_t launch_any_type(const Params& p, int most_pairs, cudaStream_t stream) noexcept {
  if (!fits_launch(p, most_pairs)) return cudaErrorInvalidValue;
  if (p.batch == 0 || p.tokens == 0 || p.num_heads == 0) return cudaSuccess;
  if (is_float8(p.out_type)) return rotate_to_float8(p, stream);
  switch (p.type) {
    case DType::kFloat16:
      return launch_untuned<Float16>(p, stream);
    case DType::kBFloat16:
      return launch_untuned<BFloat16>(p, stream);
    case DType::kFloat32:
      return launch_untuned<Float32>(p, stream);
    case DType::kFloat64:
      return launch_untuned<Float64>(p, stream);
    default:
      return cudaErrorInvalidValue;
  }
}

}  // namespace rotary::internal::cuda
