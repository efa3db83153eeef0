// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// Selects kernel and configuration of the tuned rotation by size class: each where it was measured
// fastest (docs/cuda.md).
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "cuda/launch_vectorized.cuh"
#include "cuda/vectorized_params.h"

namespace rotary::internal::cuda {

using OneHead = KernelConfig<1, false, 512, 3, Prefetch::kFirst>;
using TwoAdjacentHeads = KernelConfig<2, true, 512, 2>;
using TwoHeads = KernelConfig<2, false, 512, 3, Prefetch::kFirst>;
using FourHeads = KernelConfig<4, false, 256, 4, Prefetch::kAll>;
using EightHeads = KernelConfig<8, false, 256, 2, Prefetch::kAll>;

/// Total bytes, then bytes per token: they decide which configuration is fastest.
enum class SizeClass : std::uint8_t {
  kDecode,        // up to 16 MB: a decoding step, or little more
  kCached,        // under 32 MB: fits the L2 cache
  kShortTokens,   // up to 4 KB per token
  kMediumTokens,  // up to 8 KB per token
  kLongTokens,
};

inline SizeClass size_class_of(const SimpleParams& p) noexcept {
  constexpr std::int64_t kMaxDecodeBytes = std::int64_t{16} << 20;
  constexpr std::int64_t kMaxCachedBytes = std::int64_t{32} << 20;
  const std::int64_t token_bytes =
      static_cast<std::int64_t>(size_of(p.type)) * p.num_heads * p.head_dim;
  if (p.batch * p.tokens * token_bytes <= kMaxDecodeBytes) return SizeClass::kDecode;
  if (p.batch * p.tokens * token_bytes < kMaxCachedBytes) return SizeClass::kCached;
  return token_bytes <= 4096   ? SizeClass::kShortTokens
         : token_bytes <= 8192 ? SizeClass::kMediumTokens
                               : SizeClass::kLongTokens;
}

/// Bytes that the first blocks prefetch while the previous launch drains: about what arrives in L2
/// in that time.
inline int prefetch_bytes(const SimpleParams& p, SizeClass size_class) noexcept {
  return p.overlaps && size_class >= SizeClass::kShortTokens ? 4 << 20 : 0;
}

/// Whether one token is enough work for a block: nearly always.
inline bool has_large_tokens(const SimpleParams& p, const VectorizedParams& vectorized) noexcept {
  constexpr std::int32_t kMinFragments = 64;
  return vectorized.fragments * p.num_heads >= kMinFragments;
}

inline bool is_decode(const SimpleParams& p, const VectorizedParams& vectorized,
                      SizeClass size_class) noexcept {
  constexpr std::int64_t kFewTokens = 128;
  return size_class == SizeClass::kDecode &&
         (has_large_tokens(p, vectorized) || p.batch * p.tokens <= kFewTokens);
}

template <class Fragment>
cudaError_t launch_decode(const SimpleParams& p, VectorizedParams& vectorized,
                          cudaStream_t stream) noexcept {
  const int max_packs = p.batch * p.tokens <= 64 ? 160 : 320;
  return launch_tokens<Fragment, Prefetch::kNone>(p, max_packs, 0, vectorized, stream);
}

template <class Element>
cudaError_t launch_half(const SimpleParams& p, VectorizedParams& vectorized,
                        cudaStream_t stream) noexcept {
  using Fragment = TwoPackFragment<Element, Pairing::kHalf, Pairing::kHalf>;
  const SizeClass size_class = size_class_of(p);
  if (is_decode(p, vectorized, size_class)) return launch_decode<Fragment>(p, vectorized, stream);
  cudaError_t error = cudaSuccess;
  if (size_class == SizeClass::kLongTokens &&
      launch_shuffle<ShuffleFragment<Element>, FourHeads>(p, vectorized, stream, error)) {
    return error;
  }
  if (size_class == SizeClass::kLongTokens) {
    return launch_vectorized<Fragment, TwoAdjacentHeads>(p, 4, vectorized, stream);
  }
  const int prefetched = prefetch_bytes(p, size_class);
  if (size_class == SizeClass::kMediumTokens && has_large_tokens(p, vectorized)) {
    return launch_tokens<Fragment, Prefetch::kFirst>(p, 192, prefetched, vectorized, stream);
  }
  return launch_vectorized<Fragment, OneHead>(p, 1, vectorized, stream, prefetched);
}

template <class Element>
cudaError_t launch_interleaved(const SimpleParams& p, VectorizedParams& vectorized,
                               cudaStream_t stream) noexcept {
  using Fragment = InterleavedFragment<Element>;
  const SizeClass size_class = size_class_of(p);
  if (is_decode(p, vectorized, size_class)) return launch_decode<Fragment>(p, vectorized, stream);
  if (size_class == SizeClass::kLongTokens && is_in_place(p)) {
    return launch_vectorized<Fragment, EightHeads>(p, 1, vectorized, stream);
  }
  if (size_class == SizeClass::kLongTokens) {
    return launch_vectorized<Fragment, FourHeads>(p, 2, vectorized, stream);
  }
  return launch_vectorized<Fragment, TwoHeads>(p, 1, vectorized, stream,
                                               prefetch_bytes(p, size_class));
}

}  // namespace rotary::internal::cuda
