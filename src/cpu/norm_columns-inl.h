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

#include "cpu/elements-inl.h"
#include "cpu/norm_block.h"
#include "cpu/norm_heads-inl.h"
#include "cpu/norm_sums-inl.h"
#include "cpu/pair_policies-inl.h"
#include "cpu/vectors-inl.h"

HWY_BEFORE_NAMESPACE();
namespace rotary::internal::HWY_NAMESPACE {

/// The norm of one head. E: the type that it is rounded to; Float32 for none. Scaled: the type that
/// it is rounded to before its factor.
template <class E, class D>
struct RmsOfHead {
  using V = hn::Vec<D>;
  using Scaled = Float32;
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
struct RmsInStepsOfHead {
  using V = hn::Vec<D>;
  using Scaled = E;
  static constexpr bool kHasBias = false;
  HWY_INLINE RmsInStepsOfHead(D tag, const HeadMoments& moments, std::int64_t h)
      : RmsInStepsOfHead(tag, hn::Set(tag, moments.scales[h])) {}
  HWY_INLINE RmsInStepsOfHead(D tag, V by) : d(tag), scale(by) {}
  HWY_INLINE V operator()(V x, V factor, V /*bias*/) const {
    return rounded<E>(d, hn::Mul(rounded<E>(d, hn::Mul(x, scale)), factor));
  }
  D d;
  V scale;
};

template <class E, class D>
struct LayerNormOfHead {
  using V = hn::Vec<D>;
  using Scaled = Float32;
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
