// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// Norm, rotation and store with exact angles: the tuned kernels where they apply, otherwise the
// general one.

#include "cuda/device/fused_tokens.cuh"
#include "cuda/dispatch.cuh"
#include "cuda/fused.h"
#include "cuda/fused_shape.h"
#include "cuda/fused_vectorized.h"
#include "cuda/launch_fused_heads.cuh"
#include "cuda/launch_fused_vectorized.h"
#include "cuda/launch_kernel.cuh"

namespace rotary::internal::cuda {
namespace {

template <class Element, Pairing kPairing>
cudaError_t launch_tokens(const FusedTokensParams& p, const FusedShape& shape,
                          cudaStream_t stream) noexcept {
  const bool norms = p.weight_floats > 0;
  bool stores = false;
  for (int k = 0; k < p.num_operands; ++k) stores = stores || p.fused[k].store != kNoStore;
  const auto kernel = norms ? (stores ? fused_tokens<Element, kPairing, true, true>
                                      : fused_tokens<Element, kPairing, true, false>)
                            : fused_tokens<Element, kPairing, false, true>;
  const dim3 grid(static_cast<unsigned>(p.tokens), static_cast<unsigned>(p.batch),
                  static_cast<unsigned>(shape.head_splits));
  const dim3 block(static_cast<unsigned>(shape.lanes), static_cast<unsigned>(shape.rows));
  return launch_kernel(kernel, p, grid, block, static_cast<std::size_t>(shape.shared_bytes),
                       p.overlaps, stream);
}

}  // namespace

cudaError_t fused(const FusedParams<SimpleParams>& params, cudaStream_t stream) noexcept {
  cudaError_t error = cudaSuccess;
  if (is_empty_launch(params, kMaxSimplePairs, error)) return error;
  FusedVectorizedParams vectorized{};
  if (make_fused_vectorized(params, vectorized)) {
    const auto launch = params.type == DType::kBFloat16  ? launch_fused_bfloat16
                        : params.type == DType::kFloat16 ? launch_fused_float16
                                                         : launch_fused_float32;
    return launch(params.read, params.batch, vectorized, stream);
  }
  FusedTokensParams p{};
  static_cast<FusedParams<SimpleParams>&>(p) = params;
  const FusedShape shape = shape_fused_tokens(p);
  if (shape.lanes == 0) return launch_fused_heads(params, stream);
  return dispatch_float32_compute(p.type, [&](auto element) {
    using Element = decltype(element);
    return p.read == Pairing::kHalf
               ? launch_tokens<Element, Pairing::kHalf>(p, shape, stream)
               : launch_tokens<Element, Pairing::kInterleaved>(p, shape, stream);
  });
}

}  // namespace rotary::internal::cuda
