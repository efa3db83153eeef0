// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// Per target: the norm of the elements of a column (pair_policies-inl.h), in registers.

#if defined(ROTARY_CPU_NORM_COLUMNS_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef ROTARY_CPU_NORM_COLUMNS_INL_H
#undef ROTARY_CPU_NORM_COLUMNS_INL_H
#else
#define ROTARY_CPU_NORM_COLUMNS_INL_H
#endif

#include <hwy/highway.h>

#include <cstdint>
#include <type_traits>

#include "cpu/elements-inl.h"
#include "cpu/norm_block.h"
#include "cpu/norm_sums-inl.h"
#include "cpu/pair_policies-inl.h"
#include "cpu/vectors-inl.h"
#include "cpu/writers-inl.h"

HWY_BEFORE_NAMESPACE();
namespace rotary::internal::HWY_NAMESPACE {

/// Rounds to the element type and converts back.
template <class E, class D, class V = hn::Vec<D>>
HWY_INLINE V rounded(D d, V v) {
  if constexpr (std::is_same_v<E, BFloat16>) {
    // To nearest even, as BFloat16EvenOdd does it: a NaN has a lower half of zeros.
    const hn::RebindToUnsigned<D> du;
    const auto bits = hn::BitCast(du, v);
    const auto odd = hn::VecFromMask(du, hn::TestBit(bits, hn::Set(du, 0x10000u)));  // -1 or 0
    const auto sum = hn::Sub(hn::Add(bits, hn::Set(du, 0x7fffu)), odd);
    return hn::BitCast(d, hn::And(sum, hn::Set(du, 0xffff0000u)));
  } else if constexpr (std::is_same_v<E, Float16>) {
    HWY_ALIGN std::uint16_t memory[kMaxLanes<D>];
#if ROTARY_CPU_HAS_FMA
    (void)memory;
    const hn::Rebind<hwy::float16_t, D> d16;
    return hn::PromoteTo(d, hn::DemoteTo(d16, v));
#else
    CachedWriter writer;
    Float16::store(writer, d, v, memory);
    return Float16::load(d, memory);
#endif
  } else {
    (void)d;
    return v;
  }
}

/// The norm of one head. E: the type that it is rounded to; Float32 for none.
template <class E, class D>
struct RmsOfHead {
  using V = hn::Vec<D>;
  static constexpr bool kHasBias = false;
  HWY_INLINE RmsOfHead(D tag, const HeadMoments& moments, std::int64_t h)
      : RmsOfHead(tag, hn::Set(tag, moments.scales[h])) {}
  HWY_INLINE RmsOfHead(D tag, V by) : d(tag), scale(by) {}
  HWY_INLINE V operator()(V x, V factor, V /*bias*/) const {
    return rounded<E>(d, hn::Mul(hn::Mul(x, scale), factor));
  }
  D d;
  V scale;
};

template <class E, class D>
struct LayerNormOfHead {
  using V = hn::Vec<D>;
  static constexpr bool kHasBias = true;
  HWY_INLINE LayerNormOfHead(D tag, const HeadMoments& moments, std::int64_t h)
      : d(tag), mean(hn::Set(tag, moments.means[h])), scale(hn::Set(tag, moments.scales[h])) {}
  HWY_INLINE V operator()(V x, V factor, V bias) const {
    const V scaled = hn::Mul(hn::Mul(hn::Sub(x, mean), scale), factor);
    return rounded<E>(d, hn::Add(scaled, bias));
  }
  D d;
  V mean, scale;
};

/// A norm of the Data of a column: a vector, a Vec2, or Pairs of either.
template <class Norm, class V = typename Norm::V>
HWY_INLINE V normalised(const Norm& norm, V x, V factor, V bias) {
  return norm(x, factor, bias);
}
template <class Norm, class V>
HWY_INLINE Vec2<V> normalised(const Norm& norm, const Vec2<V>& x, const Vec2<V>& factor,
                              const Vec2<V>& bias) {
  return {norm(x.v0, factor.v0, bias.v0), norm(x.v1, factor.v1, bias.v1)};
}
template <class Norm, class X>
HWY_INLINE Pairs<X> normalised(const Norm& norm, const Pairs<X>& x, const Pairs<X>& factor,
                               const Pairs<X>& bias) {
  return {normalised(norm, x.x, factor.x, bias.x), normalised(norm, x.y, factor.y, bias.y)};
}

/// Factors or biases of the column whose first element in a run is i, as Policy::load has elements.
template <class Policy>
struct SliceLoader;
template <class E>
struct SliceLoader<HalfPairs<E>> {
  template <class D, class V = hn::Vec<D>>
  static HWY_INLINE auto load(D d, const NormSlice& t, std::int64_t i) {
    return Pairs<typename E::template Vectors<V>>{load_table<E>(d, t.x, i, t.odd_begin),
                                                  load_table<E>(d, t.y, i, t.odd_begin)};
  }
};
template <class E>
struct SliceLoader<InterleavedPairs<E>> {
  template <class D, class V = hn::Vec<D>>
  static HWY_INLINE auto load(D d, const NormSlice& t, std::int64_t i) {
    return load_table<E>(d, t.all, i);
  }
};
template <class E>
struct SliceLoader<DeinterleavedPairs<E>> {
  template <class D, class V = hn::Vec<D>>
  static HWY_INLINE auto load(D d, const NormSlice& t, std::int64_t i) {
    return Pairs<V>{hn::LoadU(d, t.x + i / 2), hn::LoadU(d, t.y + i / 2)};
  }
};
#if ROTARY_CPU_IS_NEON
template <class E>
struct SliceLoader<UnzippedPairs<E>> {
  template <class D, class V = hn::Vec<D>>
  static HWY_INLINE auto load(D d, const NormSlice& t, std::int64_t i) {
    return Pairs<Vec2<V>>{load_table<E>(d, t.x, i / 2), load_table<E>(d, t.y, i / 2)};
  }
};
#endif

}  // namespace rotary::internal::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // ROTARY_CPU_NORM_COLUMNS_INL_H
