// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// Per target: tags, and a multiply-add that rounds once on every target, so that all give the same
// bits.

#if defined(ROTARY_CPU_VECTORS_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef ROTARY_CPU_VECTORS_INL_H
#undef ROTARY_CPU_VECTORS_INL_H
#else
#define ROTARY_CPU_VECTORS_INL_H
#endif

#include <hwy/highway.h>

#include <cmath>
#include <cstddef>
#include <cstdint>

// Instructions for a fused multiply-add and for float16, which came together on x86.
#undef ROTARY_CPU_HAS_FMA
#if (HWY_ARCH_X86 && HWY_TARGET <= HWY_AVX2) || \
    (HWY_ARCH_ARM_A64 && HWY_TARGET != HWY_SCALAR && HWY_TARGET != HWY_EMU128)
#define ROTARY_CPU_HAS_FMA 1
#else
#define ROTARY_CPU_HAS_FMA 0
#endif

HWY_BEFORE_NAMESPACE();
namespace rotary::internal::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

#if HWY_TARGET == HWY_SCALAR
inline constexpr bool kHasBlocks = false;
#else
inline constexpr bool kHasBlocks = true;  // vectors of at least 16 bytes
#endif

/// Emulated vectors gain nothing from code for each number of columns, which takes twice as long to
/// compile as all the rest.
#if HWY_TARGET == HWY_SCALAR || HWY_TARGET == HWY_EMU128
inline constexpr bool kHasVectors = false;
#else
inline constexpr bool kHasVectors = true;
#endif

/// Whole vectors; blocks of 16 bytes, in which lanes can be interleaved freely; single lanes.
template <typename T>
using FullTag = hn::ScalableTag<T>;
template <typename T>
using BlockTag = hn::CappedTag<T, 16 / sizeof(T)>;
template <typename T>
using OneTag = hn::CappedTag<T, 1>;

template <class D>
inline constexpr std::size_t kMaxLanes = hn::MaxLanes(D());

/// a * b + c, rounded once.
template <class D, class V = hn::Vec<D>>
HWY_INLINE V fused(D d, V a, V b, V c) {
#if ROTARY_CPU_HAS_FMA
  (void)d;
  return hn::MulAdd(a, b, c);
#else
  using T = hn::TFromD<D>;
  HWY_ALIGN T x[kMaxLanes<D>];
  HWY_ALIGN T y[kMaxLanes<D>];
  HWY_ALIGN T z[kMaxLanes<D>];
  hn::StoreU(a, d, x);
  hn::StoreU(b, d, y);
  hn::StoreU(c, d, z);
  for (std::size_t i = 0; i < hn::Lanes(d); ++i) x[i] = std::fma(x[i], y[i], z[i]);
  return hn::LoadU(d, x);
#endif
}

/// c - a * b, rounded once.
template <class D, class V = hn::Vec<D>>
HWY_INLINE V fused_negative(D d, V a, V b, V c) {
#if ROTARY_CPU_HAS_FMA
  (void)d;
  return hn::NegMulAdd(a, b, c);
#else
  return fused(d, hn::Neg(a), b, c);
#endif
}

#if HWY_TARGET == HWY_NEON
// Instructions of Armv8.6 that this Highway does not know of: only for machines that have them
// (has_armv86(), targets.h). The assembler must be told; the compiler is not, and uses none itself.
#define ROTARY_CPU_NEWER_ARM ".arch armv8.6-a+crypto+fp16fml\n\t"

/// To nearest even, in the lower half; the upper half is zero.
HWY_INLINE uint16x8_t round_to_bfloat16(float32x4_t v) {
  uint16x8_t rounded;
  asm(ROTARY_CPU_NEWER_ARM "bfcvtn %0.4h, %1.4s" : "=w"(rounded) : "w"(v));
  return rounded;
}

// float16 as floats, the lower four and the upper four: -0 + 1 v, which is exact and keeps the sign
// of zero. Converting is one instruction, but one that only two of a Neoverse-V1's four pipes do,
// and only every other cycle.
inline constexpr std::uint16_t kFloat16One = 0x3c00;

HWY_INLINE float32x4_t widen_low(uint16x8_t v) {
  const uint16x8_t one = vdupq_n_u16(kFloat16One);
  float32x4_t wide = vdupq_n_f32(-0.0f);
  asm(ROTARY_CPU_NEWER_ARM "fmlal %0.4s, %1.4h, %2.4h" : "+w"(wide) : "w"(v), "w"(one));
  return wide;
}

HWY_INLINE float32x4_t widen_high(uint16x8_t v) {
  const uint16x8_t one = vdupq_n_u16(kFloat16One);
  float32x4_t wide = vdupq_n_f32(-0.0f);
  asm(ROTARY_CPU_NEWER_ARM "fmlal2 %0.4s, %1.4h, %2.4h" : "+w"(wide) : "w"(v), "w"(one));
  return wide;
}

/// sum + (-y s, x s) for each pair (x, y) of v, rounded once; s is at odd lanes.
HWY_INLINE float32x4_t add_turned(float32x4_t sum, float32x4_t s, float32x4_t v) {
  asm(ROTARY_CPU_NEWER_ARM "fcmla %0.4s, %1.4s, %2.4s, #90" : "+w"(sum) : "w"(s), "w"(v));
  return sum;
}
#endif

}  // namespace rotary::internal::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // ROTARY_CPU_VECTORS_INL_H
