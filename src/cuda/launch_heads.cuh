// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// Launches rotate_heads: dispatch on data type and memory layout.
#pragma once

#include <cuda_runtime.h>

#include <cstddef>

#include "cuda/device/rotate_heads.cuh"
#include "cuda/dispatch.cuh"
#include "cuda/launch_kernel.cuh"
#include "cuda/launch_shape.h"
#include "cuda/rotate_float8.h"

namespace rotary::internal::cuda {

/// rotate_heads, one head per thread.
template <class Fragment, class Params>
cudaError_t launch_heads(const Params& p, cudaStream_t stream) noexcept {
  using Config = KernelConfig<1, false, 512, 1>;
  const LaunchShape shape =
      make_launch_shape(p, p.pair_count / Fragment::kPairs, Config::kMaxThreads);
  const std::size_t shared = static_cast<std::size_t>(shape.tokens) * 2 *
                             padded_pairs(static_cast<std::uint32_t>(p.pair_count)) *
                             sizeof(typename Fragment::T);
  const auto tiles = (p.tokens + shape.tokens - 1) / shape.tokens;
  const dim3 grid(static_cast<unsigned>(tiles), static_cast<unsigned>(p.batch),
                  static_cast<unsigned>(shape.head_splits));
  const dim3 block(static_cast<unsigned>(shape.fragments), static_cast<unsigned>(shape.rows),
                   static_cast<unsigned>(shape.tokens));
  return launch_kernel(rotate_heads<Fragment, Config, Params>, p, grid, block, shared, p.overlaps,
                       stream);
}

/// Vectorised, one pairing read and the other written.
template <class Element, class Params>
cudaError_t launch_mixed(const Params& p, cudaStream_t stream) noexcept {
  if (p.read == Pairing::kHalf) {
    return launch_heads<TwoPackFragment<Element, Pairing::kHalf, Pairing::kInterleaved>>(p, stream);
  }
  return launch_heads<TwoPackFragment<Element, Pairing::kInterleaved, Pairing::kHalf>>(p, stream);
}

/// Any layout. Mixed pairings go element by element, which spares kernels for rare cases.
template <class Element, class Params>
cudaError_t launch_layout(const Params& p, cudaStream_t stream) noexcept {
  switch (layout_of(p)) {
    case Layout::kHalf:
      return launch_heads<TwoPackFragment<Element, Pairing::kHalf, Pairing::kHalf>>(p, stream);
    case Layout::kInterleaved:
      return launch_heads<InterleavedFragment<Element>>(p, stream);
    default:
      return launch_heads<PairFragment<Element>>(p, stream);
  }
}

/// Checks sizes, then dispatches on the data types.
template <class Params>
cudaError_t launch_dtype(const Params& p, int max_pairs, cudaStream_t stream) noexcept {
  if (!fits_launch(p, max_pairs)) return cudaErrorInvalidValue;
  if (p.batch == 0 || p.tokens == 0 || p.num_heads == 0) return cudaSuccess;
  if (is_float8(p.out_type)) return rotate_to_float8(p, stream);
  return dispatch_element(
      p.type, [&](auto element) { return launch_layout<decltype(element)>(p, stream); });
}

}  // namespace rotary::internal::cuda
