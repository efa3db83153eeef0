// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// Per target: cos and sin rearranged to a RowLayout (token_heads.h).

#if defined(ROTARY_CPU_ROW_LAYOUT_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef ROTARY_CPU_ROW_LAYOUT_INL_H
#undef ROTARY_CPU_ROW_LAYOUT_INL_H
#else
#define ROTARY_CPU_ROW_LAYOUT_INL_H
#endif

#include <hwy/highway.h>

#include <cstddef>
#include <cstdint>

#include "cpu/vectors-inl.h"

HWY_BEFORE_NAMESPACE();
namespace rotary::internal::HWY_NAMESPACE {

#if HWY_ARCH_X86 && ROTARY_CPU_HAS_FMA
/// to_per_element() with full vectors. Returns the first pair that is left.
HWY_INLINE std::int64_t to_per_element_vectors(const float* c, const float* s, std::int64_t pairs,
                                               float* wide_c, float* wide_s) {
  const FullTag<float> d;
  const hn::Half<decltype(d)> half;
  constexpr std::size_t kLanes = kMaxLanes<FullTag<float>>;
  HWY_ALIGN std::int32_t twice[kLanes];
  HWY_ALIGN std::uint32_t minus[kLanes];
  for (std::size_t lane = 0; lane < kLanes; ++lane) {
    twice[lane] = static_cast<std::int32_t>(lane / 2);
    minus[lane] = lane % 2 == 0 ? 0x80000000u : 0u;
  }
  const auto indices = hn::SetTableIndices(d, twice);
  const auto signs = hn::BitCast(d, hn::Load(hn::RebindToUnsigned<decltype(d)>(), minus));
  constexpr auto kStep = static_cast<std::int64_t>(kLanes / 2);
  std::int64_t i = 0;
  for (; i + kStep <= pairs; i += kStep) {
    const auto cos = hn::ZeroExtendVector(d, hn::LoadU(half, c + i));
    const auto sin = hn::ZeroExtendVector(d, hn::LoadU(half, s + i));
    hn::StoreU(hn::TableLookupLanes(cos, indices), d, wide_c + 2 * i);
    hn::StoreU(hn::Xor(hn::TableLookupLanes(sin, indices), signs), d, wide_s + 2 * i);
  }
  return i;
}
#endif

/// RowLayout::kPerElement: [c0 c0 c1 c1 ...] and [-s0 s0 -s1 s1 ...].
template <typename T>
HWY_INLINE void to_per_element(const T* c, const T* s, std::int64_t pairs, T* wide_c, T* wide_s) {
  std::int64_t i = 0;
#if HWY_ARCH_X86 && ROTARY_CPU_HAS_FMA
  if constexpr (sizeof(T) == sizeof(float)) {
    i = to_per_element_vectors(c, s, pairs, wide_c, wide_s);
  }
#endif
#if HWY_TARGET != HWY_SCALAR
  const BlockTag<T> d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  for (; i + lanes <= pairs; i += lanes) {
    const auto cos = hn::LoadU(d, c + i);
    const auto sin = hn::LoadU(d, s + i);
    const auto minus = hn::Neg(sin);
    hn::StoreU(hn::InterleaveLower(d, cos, cos), d, wide_c + 2 * i);
    hn::StoreU(hn::InterleaveUpper(d, cos, cos), d, wide_c + 2 * i + lanes);
    hn::StoreU(hn::InterleaveLower(d, minus, sin), d, wide_s + 2 * i);
    hn::StoreU(hn::InterleaveUpper(d, minus, sin), d, wide_s + 2 * i + lanes);
  }
#endif
  for (; i < pairs; ++i) {
    wide_c[2 * i] = wide_c[2 * i + 1] = c[i];
    wide_s[2 * i] = -s[i];
    wide_s[2 * i + 1] = s[i];
  }
}

/// RowLayout::kEvenOdd: [c0 c2 c4 ... c1 c3 ...], odd pairs from `odd_begin` on. The last of an odd
/// number of pairs is left out, since it is rotated as a tail.
template <typename T>
HWY_INLINE void to_even_odd(const T* HWY_RESTRICT from, std::int64_t pairs, std::int64_t odd_begin,
                            T* HWY_RESTRICT to) {
  for (std::int64_t i = 0; i < pairs / 2; ++i) {
    to[i] = from[2 * i];
    to[odd_begin + i] = from[2 * i + 1];
  }
}

}  // namespace rotary::internal::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // ROTARY_CPU_ROW_LAYOUT_INL_H
