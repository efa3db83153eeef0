// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// Norm, rotation and store with exact angles: the tuned kernels where they apply, otherwise the
// general one.

#include "cuda/device/fused_tokens.cuh"
#include "cuda/device/fused_vectorized.cuh"
#include "cuda/device/kernel_config.cuh"
#include "cuda/dispatch.cuh"
#include "cuda/fused.h"
#include "cuda/fused_shape.h"
#include "cuda/fused_vectorized.h"
#include "cuda/launch_fused_heads.cuh"
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

template <class Element, Pairing kPairing, bool kNorms, bool kStores, class Config>
cudaError_t launch_vectorized_as(std::int32_t max_threads, std::int32_t max_tokens,
                                 FusedVectorizedParams& p, std::int32_t batch,
                                 cudaStream_t stream) noexcept {
  const FusedVectorizedShape shape =
      shape_fused_vectorized(Config::kHeads, max_threads, max_tokens, p);
  const dim3 grid(shape.tiles, static_cast<unsigned>(batch));
  const dim3 block(static_cast<unsigned>(p.angles.fragments), shape.slots);
  return launch_kernel(fused_vectorized<Element, kPairing, kNorms, kStores, Config>, p, grid, block,
                       shape.shared_bytes, p.angles.overlaps, stream);
}

using FusedOneHead = KernelConfig<1, true, 256, 4>;
/// A norm and a store together need more registers than four blocks have.
template <bool kNorms, bool kStores>
using FusedTwoHeads = KernelConfig<2, true, 256, kNorms && !kStores ? 4 : 3>;

/// By size, as launch_tuned.cuh does for rotations alone: each where it was measured fastest.
template <class Element, Pairing kPairing, bool kNorms, bool kStores>
cudaError_t launch_vectorized(const FusedParams<SimpleParams>& params, FusedVectorizedParams& p,
                              cudaStream_t stream) noexcept {
  constexpr std::int64_t kMaxDecodeBytes = std::int64_t{16} << 20;
  const std::int64_t tokens = params.batch * params.tokens;
  const std::int64_t bytes =
      tokens * static_cast<std::int64_t>(size_of(params.type)) * params.num_heads * params.head_dim;
  if (bytes > kMaxDecodeBytes) {
    return launch_vectorized_as<Element, kPairing, kNorms, kStores, FusedTwoHeads<kNorms, kStores>>(
        256, 64, p, params.batch, stream);
  }
  return launch_vectorized_as<Element, kPairing, kNorms, kStores, FusedOneHead>(
      tokens <= 64 ? 128 : 160, 1, p, params.batch, stream);
}

template <class Element, Pairing kPairing>
cudaError_t launch_vectorized(const FusedParams<SimpleParams>& params, FusedVectorizedParams& p,
                              cudaStream_t stream) noexcept {
  bool norms = false;
  bool stores = false;
  for (const FusedTileOperand& o : p.operands) {
    norms = norms || o.normalizes;
    stores = stores || o.store != kNoStore;
  }
  if (!norms) return launch_vectorized<Element, kPairing, false, true>(params, p, stream);
  return stores ? launch_vectorized<Element, kPairing, true, true>(params, p, stream)
                : launch_vectorized<Element, kPairing, true, false>(params, p, stream);
}

}  // namespace

cudaError_t fused(const FusedParams<SimpleParams>& params, cudaStream_t stream) noexcept {
  cudaError_t error = cudaSuccess;
  if (is_empty_launch(params, kMaxSimplePairs, error)) return error;
  FusedVectorizedParams vectorized{};
  if (make_fused_vectorized(params, vectorized)) {
    return dispatch_float32_compute(params.type, [&](auto element) {
      using Element = decltype(element);
      return params.read == Pairing::kHalf
                 ? launch_vectorized<Element, Pairing::kHalf>(params, vectorized, stream)
                 : launch_vectorized<Element, Pairing::kInterleaved>(params, vectorized, stream);
    });
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
