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

// Measured fastest (docs/cuda.md). A pack becomes eight bytes, so that threads have more of them
// than where the type stays.
using FourHeadsOf8Bits = KernelConfig<4, false, 160, 5, Prefetch::kFirst>;
using EightHeadsOf8Bits = KernelConfig<8, false, 128, 6, Prefetch::kFirst>;
inline constexpr int kPrefetch8Bits = 12 << 20;

template <class Element>
cudaError_t launch_float8_half(const SimpleParams& p, VectorizedParams& vectorized,
                               cudaStream_t stream) noexcept {
  using Fragment = TwoPackFragment<Element, Pairing::kHalf, Pairing::kHalf, Float8>;
  const SizeClass size_class = size_class_of(p);
  if (is_decode(p, vectorized, size_class)) return launch_decode<Fragment>(p, vectorized, stream);
  return launch_vectorized<Fragment, FourHeadsOf8Bits>(p, 1, vectorized, stream,
                                                       p.overlaps ? kPrefetch8Bits : 0);
}

template <class Element>
cudaError_t launch_float8_interleaved(const SimpleParams& p, VectorizedParams& vectorized,
                                      cudaStream_t stream) noexcept {
  using Fragment = InterleavedFragment<Element, Float8>;
  const SizeClass size_class = size_class_of(p);
  if (is_decode(p, vectorized, size_class)) return launch_decode<Fragment>(p, vectorized, stream);
  const int prefetched = p.overlaps ? kPrefetch8Bits : 0;
  if (size_class != SizeClass::kLongTokens) {
    return launch_vectorized<Fragment, FourHeadsOf8Bits>(p, 1, vectorized, stream, prefetched);
  }
  const VectorizedShape shape =
      shape_vectorized(p, EightHeadsOf8Bits::kHeads, EightHeadsOf8Bits::kMaxThreads, 1, vectorized);
  return has_whole_warps(vectorized, shape)
             ? launch_vectorized<Fragment, EightHeadsOf8Bits>(p, 1, vectorized, stream, prefetched)
             : launch_vectorized<Fragment, FourHeads>(p, 1, vectorized, stream);
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
  return layout == Layout::kHalf ? launch_float8_half<Element>(p, vectorized, stream)
                                 : launch_float8_interleaved<Element>(p, vectorized, stream);
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
