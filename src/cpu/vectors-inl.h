// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// Per target: vector tags, and multiply-adds that round once on every target, so that all targets
// give the same bits.

#if defined(ROTARY_CPU_VECTORS_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef ROTARY_CPU_VECTORS_INL_H
#undef ROTARY_CPU_VECTORS_INL_H
#else
#define ROTARY_CPU_VECTORS_INL_H
#endif

#include <hwy/highway.h>

#include <cmath>
#include <cstddef>

// The namespace of the kernels (this header and those that use the macro): that of Highway's
// target, except in a file with compiler flags of its own, whose instantiations the linker must not
// merge with those of other files.
#ifndef ROTARY_CPU_NAMESPACE
#define ROTARY_CPU_NAMESPACE HWY_NAMESPACE
#endif

// NEON in any variant: Highway's versions differ in how many targets they make of it. SVE is
// disabled (targets.h).
#undef ROTARY_CPU_IS_NEON
#if HWY_ARCH_ARM_A64 && HWY_TARGET != HWY_SCALAR && HWY_TARGET != HWY_EMU128
#define ROTARY_CPU_IS_NEON 1
#else
#define ROTARY_CPU_IS_NEON 0
#endif

// Instructions for fused multiply-add and for float16 conversion, which x86 introduced together.
#undef ROTARY_CPU_HAS_FMA
#if (HWY_ARCH_X86 && HWY_TARGET <= HWY_AVX2) || ROTARY_CPU_IS_NEON
#define ROTARY_CPU_HAS_FMA 1
#else
#define ROTARY_CPU_HAS_FMA 0
#endif

HWY_BEFORE_NAMESPACE();
namespace rotary::internal::ROTARY_CPU_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

#if HWY_TARGET == HWY_SCALAR
inline constexpr bool kHasBlocks = false;
#else
inline constexpr bool kHasBlocks = true;  // vectors of at least 16 bytes
#endif

/// False for emulated vectors: they gain nothing from one instantiation per number of columns,
/// which takes longer to compile than all other code.
#if HWY_TARGET == HWY_SCALAR || HWY_TARGET == HWY_EMU128
inline constexpr bool kHasVectors = false;
#else
inline constexpr bool kHasVectors = true;
#endif

/// Full vectors; 16-byte blocks, within which lanes can be interleaved freely; single lanes.
template <typename T>
using FullTag = hn::ScalableTag<T>;
template <typename T>
using BlockTag = hn::CappedTag<T, 16 / sizeof(T)>;
template <typename T>
using OneTag = hn::CappedTag<T, 1>;

template <class D>
inline constexpr std::size_t kMaxLanes = hn::MaxLanes(D());

/// A tuple of two vectors: 16-bit elements that fill one register, converted to float. The
/// functions below take it as they take a vector.
template <class V>
struct Vec2 {
  V v0, v1;
};

/// a * b.
template <class V>
HWY_INLINE V mul(V a, V b) {
  return hn::Mul(a, b);
}
template <class V>
HWY_INLINE Vec2<V> mul(const Vec2<V>& a, const Vec2<V>& b) {
  return {mul(a.v0, b.v0), mul(a.v1, b.v1)};
}

/// a * b + c, rounded once.
template <class D, class V = hn::Vec<D>>
HWY_INLINE V mul_add(D d, V a, V b, V c) {
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
template <class D, class V>
HWY_INLINE Vec2<V> mul_add(D d, const Vec2<V>& a, const Vec2<V>& b, const Vec2<V>& c) {
  return {mul_add(d, a.v0, b.v0, c.v0), mul_add(d, a.v1, b.v1, c.v1)};
}

/// c - a * b, rounded once.
template <class D, class V = hn::Vec<D>>
HWY_INLINE V neg_mul_add(D d, V a, V b, V c) {
#if ROTARY_CPU_HAS_FMA
  (void)d;
  return hn::NegMulAdd(a, b, c);
#else
  return mul_add(d, hn::Neg(a), b, c);
#endif
}
template <class D, class V>
HWY_INLINE Vec2<V> neg_mul_add(D d, const Vec2<V>& a, const Vec2<V>& b, const Vec2<V>& c) {
  return {neg_mul_add(d, a.v0, b.v0, c.v0), neg_mul_add(d, a.v1, b.v1, c.v1)};
}

/// Swaps the two lanes of each pair: [x0 y0 x1 y1 ...] to [y0 x0 y1 x1 ...].
template <class D, class V = hn::Vec<D>>
HWY_INLINE V swap_pairs(D d, V v) {
#if HWY_TARGET == HWY_SCALAR
  (void)d;
  return v;  // never called: one lane holds no pair
#else
  return hn::Reverse2(d, v);
#endif
}
template <class D, class V>
HWY_INLINE Vec2<V> swap_pairs(D d, const Vec2<V>& v) {
  return {swap_pairs(d, v.v0), swap_pairs(d, v.v1)};
}

}  // namespace rotary::internal::ROTARY_CPU_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // ROTARY_CPU_VECTORS_INL_H
