// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// The common case: the tuned kernels where they apply, otherwise the general one.

#include "cuda/dispatch.cuh"
#include "cuda/launch_heads.cuh"
#include "cuda/launch_tuned.cuh"
#include "cuda/rotate.h"
#include "cuda/rotate_float8.h"
#include "cuda/vectorized_params.h"

namespace rotary::internal::cuda {
namespace {

template <class Element>
cudaError_t launch_tuned(const SimpleParams& p, cudaStream_t stream) noexcept {
  const Layout layout = layout_of(p);
  if (layout == Layout::kMixed) return launch_mixed<Element>(p, stream);
  VectorizedParams vectorized{};
  if (layout == Layout::kStrided || !make_vectorized_params(p, layout, vectorized)) {
    return launch_layout<Element>(p, stream);
  }
  return layout == Layout::kHalf ? launch_half<Element>(p, vectorized, stream)
                                 : launch_interleaved<Element>(p, vectorized, stream);
}

}  // namespace

cudaError_t rotate(const SimpleParams& params, cudaStream_t stream) noexcept {
  if (!fits_launch(params, kMaxSimplePairs)) return cudaErrorInvalidValue;
  if (params.batch == 0 || params.tokens == 0 || params.num_heads == 0) return cudaSuccess;
  if (is_float8(params.out_type)) return rotate_to_float8(params, stream);
  if (params.type == DType::kFloat64) return launch_layout<Float64>(params, stream);
  return dispatch_float32_compute(
      params.type, [&](auto element) { return launch_tuned<decltype(element)>(params, stream); });
}

}  // namespace rotary::internal::cuda
