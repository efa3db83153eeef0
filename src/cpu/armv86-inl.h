// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// Element types and a policy with instructions of FEAT_BF16, FEAT_FHM and FEAT_FCMA, which this
// Highway does not wrap. For rotate_armv86.cc only, whose compiler flags allow them.
#pragma once

#include <arm_neon.h>
#include <hwy/highway.h>

#include <cstdint>

#include "cpu/elements-inl.h"
#include "cpu/pair_policies-inl.h"
#include "cpu/vectors-inl.h"

HWY_BEFORE_NAMESPACE();
namespace rotary::internal::ROTARY_CPU_NAMESPACE {

struct Float16Armv86 : Float16LowerUpper {
  /// As -0 + 1 v (fmlal, fmlal2), which is exact and keeps the sign of zero. The conversion proper
  /// (fcvtl) runs on only two of a Neoverse-V1's four vector pipes, and only every other cycle.
  template <class D, class V = hn::Vec<D>>
  static HWY_INLINE Vec2<V> load(D /*d*/, const std::uint16_t* from) {
    constexpr std::uint16_t kOne = 0x3c00;
    const float16x8_t v = vreinterpretq_f16_u16(vld1q_u16(from));
    const float16x8_t one = vreinterpretq_f16_u16(vdupq_n_u16(kOne));
    const float32x4_t zero = vdupq_n_f32(-0.0f);
    return {V(vfmlalq_low_f16(zero, v, one)), V(vfmlalq_high_f16(zero, v, one))};
  }
};

struct BFloat16Armv86 : TwoVectorsPerLoad<false> {
  using Storage = std::uint16_t;
  using Compute = float;
  using Tail = BFloat16;
  template <class D, class V = hn::Vec<D>>
  static HWY_INLINE Vec2<V> load(D d, const std::uint16_t* from) {
    const hn::Repartition<std::uint16_t, D> d16;
    const auto both = hn::LoadU(d16, from);
    return {hn::BitCast(d, hn::InterleaveLower(d16, hn::Zero(d16), both)),
            hn::BitCast(d, hn::InterleaveUpper(d16, hn::Zero(d16), both))};
  }
  /// Rounds to nearest even (bfcvtn, bfcvtn2).
  template <class Writer, class D, class V = hn::Vec<D>>
  static HWY_INLINE void store(Writer& writer, D /*d*/, const Vec2<V>& v, std::uint16_t* to) {
    const hn::Repartition<std::uint16_t, D> d16;
    const bfloat16x8_t both = vcvtq_high_bf16_f32(vcvtq_low_bf16_f32(v.v0.raw), v.v1.raw);
    writer(d16, hn::Vec<decltype(d16)>(vreinterpretq_u16_bf16(both)), to);
  }
};

/// fcmla #90: sum + i s (x + i y) = sum + (-y s, x s) for each pair (x, y) of v, rounded once. Only
/// the odd lanes of s are used.
template <class V>
HWY_INLINE V add_i_times(V sum, V s, V v) {
  return V(vcmlaq_rot90_f32(sum.raw, s.raw, v.raw));
}
template <class V>
HWY_INLINE Vec2<V> add_i_times(const Vec2<V>& sum, const Vec2<V>& s, const Vec2<V>& v) {
  return {add_i_times(sum.v0, s.v0, v.v0), add_i_times(sum.v1, s.v1, v.v1)};
}

/// InterleavedPairs with a complex multiply-add instead of swap_pairs() and mul_add(). It negates
/// the sine of x itself and reads only the sines of y, +s.
template <class E>
struct ComplexPairs : InterleavedPairs<E> {
  template <class V>
  using Table = typename InterleavedPairs<E>::template Table<V>;
  template <class V>
  using Data = typename InterleavedPairs<E>::template Data<V>;
  template <class D, class V = hn::Vec<D>>
  static HWY_INLINE Data<V> rotate(D /*d*/, const Table<V>& z, const Data<V>& v) {
    return add_i_times(mul(v, z.c), z.s, v);  // v c + i s v
  }
};

}  // namespace rotary::internal::ROTARY_CPU_NAMESPACE
HWY_AFTER_NAMESPACE();
