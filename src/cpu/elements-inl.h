// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// Per target: the element types. Each converts to its arithmetic type when it is loaded and rounds
// once when it is stored, as support/half.h defines it.
//   Storage      type in memory
//   Compute      type of the arithmetic
//   Vectors<V>   the vectors of one load: V, or Vec2<V> where 16-bit elements fill a whole register
//   kVectors     how many these are
//   kIsEvenOdd   of a Vec2, v0 has the even elements and v1 the odd ones; else the lower and the
//                upper ones
//   Tail         the element type with one vector, for what fills no whole vector

#if defined(ROTARY_CPU_ELEMENTS_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef ROTARY_CPU_ELEMENTS_INL_H
#undef ROTARY_CPU_ELEMENTS_INL_H
#else
#define ROTARY_CPU_ELEMENTS_INL_H
#endif

#include <hwy/highway.h>

#include <cstddef>
#include <cstdint>

#include "cpu/vectors-inl.h"
#include "support/half.h"

HWY_BEFORE_NAMESPACE();
namespace rotary::internal::ROTARY_CPU_NAMESPACE {

struct OneVectorPerLoad {
  template <class V>
  using Vectors = V;
  static constexpr int kVectors = 1;
  static constexpr bool kIsEvenOdd = false;
};

template <bool kEvenOdd>
struct TwoVectorsPerLoad {
  template <class V>
  using Vectors = Vec2<V>;
  static constexpr int kVectors = 2;
  static constexpr bool kIsEvenOdd = kEvenOdd;
};

template <typename T>
struct PlainElement : OneVectorPerLoad {
  using Storage = T;
  using Compute = T;
  using Tail = PlainElement;
  template <class D>
  static HWY_INLINE hn::Vec<D> load(D d, const T* from) {
    return hn::LoadU(d, from);
  }
  template <class Writer, class D>
  static HWY_INLINE void store(Writer& writer, D d, hn::Vec<D> v, T* to) {
    writer(d, v, to);
  }
};
using Float32 = PlainElement<float>;
using Float64 = PlainElement<double>;

struct BFloat16 : OneVectorPerLoad {
  using Storage = std::uint16_t;
  using Compute = float;
  using Tail = BFloat16;
  template <class D>
  static HWY_INLINE hn::Vec<D> load(D d, const std::uint16_t* from) {
    const hn::Rebind<std::uint16_t, D> d16;
    const hn::RebindToUnsigned<D> du;
    return hn::BitCast(d, hn::ShiftLeft<16>(hn::PromoteTo(du, hn::LoadU(d16, from))));
  }
  template <class Writer, class D>
  static HWY_INLINE void store(Writer& writer, D /*d*/, hn::Vec<D> v, std::uint16_t* to) {
    const hn::Rebind<std::uint16_t, D> d16;
    const hn::RebindToUnsigned<D> du;
    const hn::RebindToSigned<D> di;
    const auto bits = hn::BitCast(du, v);
    const auto odd = hn::And(hn::ShiftRight<16>(bits), hn::Set(du, 1u));
    const auto rounded = hn::Add(bits, hn::Add(odd, hn::Set(du, 0x7fffu)));
    // NaN keeps its upper bits and becomes quiet: the carry of rounding could change it.
    const auto quiet = hn::Or(bits, hn::Set(du, 0x00400000u));
    const auto number = hn::RebindMask(du, hn::Eq(v, v));
    const auto upper = hn::ShiftRight<16>(hn::IfThenElse(number, rounded, quiet));
    writer(d16, hn::DemoteTo(d16, hn::BitCast(di, upper)), to);
  }
};

#if ROTARY_CPU_IS_NEON
/// The upper halves of floats, rounded to nearest even by the lower halves: up if the lower half is
/// above the middle, or in the middle with an odd upper half. No shifts, which run on only one of a
/// Neoverse-N1's two vector pipes.
HWY_INLINE uint16x8_t round_to_bfloat16(uint16x8_t upper, uint16x8_t lower) {
  const uint16x8_t odd = vandq_u16(upper, vdupq_n_u16(1));
  const uint16x8_t is_up = vcgtq_u16(vorrq_u16(lower, odd), vdupq_n_u16(0x8000));
  return vsubq_u16(upper, is_up);  // minus all ones
}
#endif

/// bfloat16 in 32-bit words. It is the upper half of a float, so that a shift and a mask convert
/// the two elements of a word without moving lanes.
struct BFloat16EvenOdd : TwoVectorsPerLoad<true> {
  using Storage = std::uint16_t;
  using Compute = float;
  using Tail = BFloat16;
  template <class D, class V = hn::Vec<D>>
  static HWY_INLINE Vec2<V> load(D d, const std::uint16_t* from) {
    const hn::RebindToUnsigned<D> du;
    const hn::Repartition<std::uint16_t, decltype(du)> d16;
    const auto words = hn::BitCast(du, hn::LoadU(d16, from));
    return {hn::BitCast(d, hn::ShiftLeft<16>(words)),
            hn::BitCast(d, hn::And(words, hn::Set(du, 0xffff0000u)))};
  }
  /// Rounds to nearest even. A NaN that comes from bfloat16 elements, or that hardware makes, has a
  /// lower half of zeros, so that rounding does not change it.
  template <class Writer, class D, class V = hn::Vec<D>>
  static HWY_INLINE void store(Writer& writer, D /*d*/, const Vec2<V>& v, std::uint16_t* to) {
    const hn::RebindToUnsigned<D> du;
    const hn::Repartition<std::uint16_t, decltype(du)> d16;
#if ROTARY_CPU_IS_NEON
    const uint16x8_t even = vreinterpretq_u16_f32(v.v0.raw);
    const uint16x8_t odd = vreinterpretq_u16_f32(v.v1.raw);
    const hn::Vec<decltype(d16)> words(
        round_to_bfloat16(vtrn2q_u16(even, odd), vtrn1q_u16(even, odd)));
#elif HWY_ARCH_X86 && HWY_TARGET <= HWY_AVX3
    // As round_to_bfloat16(): seven instructions, where rounding each vector takes ten.
    const auto even = hn::BitCast(du, v.v0);
    const auto odd = hn::BitCast(du, v.v1);
    const auto high = hn::Set(du, 0xffff0000u);
    const auto upper = hn::BitCast(d16, hn::OrAnd(hn::ShiftRight<16>(even), odd, high));
    const auto lower = hn::BitCast(d16, hn::Or(hn::ShiftLeft<16>(odd), hn::AndNot(high, even)));
    const auto one = hn::Set(d16, std::uint16_t{1});
    const auto is_up = hn::Gt(hn::OrAnd(lower, upper, one), hn::Set(d16, std::uint16_t{0x8000}));
    const auto words = hn::IfThenElse(is_up, hn::Add(upper, one), upper);
#else
    const auto rounded = [du](auto u) HWY_ATTR {
      const auto bits = hn::BitCast(du, u);
      const auto last = hn::And(hn::ShiftRight<16>(bits), hn::Set(du, 1u));
      return hn::Add(bits, hn::Add(last, hn::Set(du, 0x7fffu)));
    };
    const auto low = hn::ShiftRight<16>(rounded(v.v0));
    const auto words = hn::BitCast(d16, hn::OrAnd(low, rounded(v.v1), hn::Set(du, 0xffff0000u)));
#endif
    writer(d16, words, to);
  }
};

struct Float16 : OneVectorPerLoad {
  using Storage = std::uint16_t;
  using Compute = float;
  using Tail = Float16;
#if ROTARY_CPU_HAS_FMA
  template <class D>
  static HWY_INLINE hn::Vec<D> load(D d, const std::uint16_t* from) {
    const hn::Rebind<hwy::float16_t, D> d16;
    const hn::Rebind<std::uint16_t, D> du16;
    return hn::PromoteTo(d, hn::BitCast(d16, hn::LoadU(du16, from)));
  }
  template <class Writer, class D>
  static HWY_INLINE void store(Writer& writer, D /*d*/, hn::Vec<D> v, std::uint16_t* to) {
    const hn::Rebind<hwy::float16_t, D> d16;
    const hn::Rebind<std::uint16_t, D> du16;
    writer(du16, hn::BitCast(du16, hn::DemoteTo(d16, v)), to);
  }
#else  // no instruction that rounds to nearest even
  template <class D>
  static HWY_INLINE hn::Vec<D> load(D d, const std::uint16_t* from) {
    HWY_ALIGN float values[kMaxLanes<D>];
    for (std::size_t i = 0; i < hn::Lanes(d); ++i) values[i] = from_float16(from[i]);
    return hn::LoadU(d, values);
  }
  template <class Writer, class D>
  static HWY_INLINE void store(Writer& /*writer*/, D d, hn::Vec<D> v, std::uint16_t* to) {
    HWY_ALIGN float values[kMaxLanes<D>];
    hn::StoreU(v, d, values);
    for (std::size_t i = 0; i < hn::Lanes(d); ++i) to[i] = to_float16(values[i]);
  }
#endif
};

#if ROTARY_CPU_IS_NEON
// A full register of 16-bit elements: NEON's conversions take its lower or its upper half.

struct BFloat16LowerUpper : TwoVectorsPerLoad<false> {
  using Storage = std::uint16_t;
  using Compute = float;
  using Tail = BFloat16;
  template <class D, class V = hn::Vec<D>>
  static HWY_INLINE Vec2<V> load(D /*d*/, const std::uint16_t* from) {
    const uint16x8_t both = vld1q_u16(from);
    const uint16x8_t zero = vdupq_n_u16(0);
    return {V(vreinterpretq_f32_u16(vzip1q_u16(zero, both))),
            V(vreinterpretq_f32_u16(vzip2q_u16(zero, both)))};
  }
  /// Rounds to nearest even. NaN as in BFloat16EvenOdd.
  template <class Writer, class D, class V = hn::Vec<D>>
  static HWY_INLINE void store(Writer& writer, D /*d*/, const Vec2<V>& v, std::uint16_t* to) {
    const hn::Repartition<std::uint16_t, D> d16;
    const uint16x8_t v0 = vreinterpretq_u16_f32(v.v0.raw);
    const uint16x8_t v1 = vreinterpretq_u16_f32(v.v1.raw);
    const uint16x8_t both = round_to_bfloat16(vuzp2q_u16(v0, v1), vuzp1q_u16(v0, v1));
    writer(d16, hn::Vec<decltype(d16)>(both), to);
  }
};

struct Float16LowerUpper : TwoVectorsPerLoad<false> {
  using Storage = std::uint16_t;
  using Compute = float;
  using Tail = Float16;
  template <class V>
  static HWY_INLINE Vec2<V> widen(uint16x8_t bits) {
    const float16x8_t both = vreinterpretq_f16_u16(bits);
    return {V(vcvt_f32_f16(vget_low_f16(both))), V(vcvt_high_f32_f16(both))};
  }
  template <class V>
  static HWY_INLINE uint16x8_t narrow(const Vec2<V>& v) {
    return vreinterpretq_u16_f16(vcvt_high_f16_f32(vcvt_f16_f32(v.v0.raw), v.v1.raw));
  }
  template <class D, class V = hn::Vec<D>>
  static HWY_INLINE Vec2<V> load(D /*d*/, const std::uint16_t* from) {
    return widen<V>(vld1q_u16(from));
  }
  template <class Writer, class D, class V = hn::Vec<D>>
  static HWY_INLINE void store(Writer& writer, D /*d*/, const Vec2<V>& v, std::uint16_t* to) {
    const hn::Repartition<std::uint16_t, D> d16;
    writer(d16, hn::Vec<decltype(d16)>(narrow(v)), to);
  }
};
#endif

}  // namespace rotary::internal::ROTARY_CPU_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // ROTARY_CPU_ELEMENTS_INL_H
