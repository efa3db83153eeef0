// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

#include "cuda/device/cos_sin_general.cuh"
#include "cuda/device/float8.cuh"
#include "cuda/dispatch.cuh"
#include "cuda/launch_heads.cuh"
#include "cuda/launch_tuned.cuh"
#include "cuda/rotate_float8.h"

namespace rotary::internal::cuda {
namespace {

template <class Element, class Params>
cudaError_t launch_float8_layout(const Params& p, cudaStream_t stream) noexcept {
  constexpr Pairing kHalf = Pairing::kHalf;
  constexpr Pairing kInterleaved = Pairing::kInterleaved;
  switch (layout_of(p)) {
    case Layout::kHalf:
      return launch_heads<TwoPackFragment<Element, kHalf, kHalf, Float8>>(p, stream);
    case Layout::kInterleaved:
      return launch_heads<InterleavedFragment<Element, Float8>>(p, stream);
    case Layout::kMixed:
      if constexpr (std::is_same_v<Params, SimpleParams>) {
        return p.read == kHalf
                   ? launch_heads<TwoPackFragment<Element, kHalf, kInterleaved, Float8>>(p, stream)
                   : launch_heads<TwoPackFragment<Element, kInterleaved, kHalf, Float8>>(p, stream);
      }
      [[fallthrough]];
    default:
      return launch_heads<PairFragment<Element, Float8>>(p, stream);
  }
}

/// The common case: the tuned kernels, where they apply.
template <class Element>
cudaError_t launch_float8(const SimpleParams& p, cudaStream_t stream) noexcept {
  const Layout layout = layout_of(p);
  const bool one_pairing = layout == Layout::kHalf || layout == Layout::kInterleaved;
  VectorizedParams vectorized{};
  if (!one_pairing || !make_vectorized_params(p, layout, vectorized)) {
    return launch_float8_layout<Element>(p, stream);
  }
  return layout == Layout::kHalf ? launch_half<Element, Float8>(p, vectorized, stream)
                                 : launch_interleaved<Element, Float8>(p, vectorized, stream);
}
template <class Element, class Params>
cudaError_t launch_float8(const Params& p, cudaStream_t stream) noexcept {
  return launch_float8_layout<Element>(p, stream);
}

template <class Params>
cudaError_t launch_float8_dtype(const Params& p, cudaStream_t stream) noexcept {
  return dispatch_float32_compute(
      p.type, [&](auto element) { return launch_float8<decltype(element)>(p, stream); });
}

}  // namespace

cudaError_t rotate_to_float8(const SimpleParams& params, cudaStream_t stream) noexcept {
  return launch_float8_dtype(params, stream);
}
cudaError_t rotate_to_float8(const TableParams& params, cudaStream_t stream) noexcept {
  return launch_float8_dtype(params, stream);
}
cudaError_t rotate_to_float8(const GeneralParams& params, cudaStream_t stream) noexcept {
  return launch_float8_dtype(params, stream);
}

}  // namespace rotary::internal::cuda
