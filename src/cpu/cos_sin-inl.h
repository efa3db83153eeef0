// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// Per target: cos and sin of fixed-point phases, as engine/phase.h defines them.

#if defined(ROTARY_CPU_COS_SIN_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef ROTARY_CPU_COS_SIN_INL_H
#undef ROTARY_CPU_COS_SIN_INL_H
#else
#define ROTARY_CPU_COS_SIN_INL_H
#endif

#include <hwy/highway.h>

#include <array>
#include <cstddef>
#include <cstdint>

#include "cpu/vectors-inl.h"
#include "engine/phase.h"

HWY_BEFORE_NAMESPACE();
namespace rotary::internal::HWY_NAMESPACE {

/// Phases per call: a multiple of the lanes of every vector, so that arrays need no tails.
inline constexpr std::size_t kMaxPhases = 256;

template <class D, class V, class Coefficients>
HWY_INLINE V horner(D d, V x2, const Coefficients& coefficients) {
  V sum = hn::Set(d, coefficients[0]);
  for (std::size_t i = 1; i < coefficients.size(); ++i) {
    sum = mul_add(d, sum, x2, hn::Set(d, coefficients[i]));
  }
  return sum;
}

/// cos and sin at x eighths of a turn, |x| <= 1.
template <class D, class V>
HWY_INLINE void cos_sin_eighths(D d, V x, V& cos, V& sin) {
  using P = EighthPolynomials<hn::TFromD<D>>;
  const V x2 = hn::Mul(x, x);
  cos = horner(d, x2, P::kCos);
  sin = mul_add(d, hn::Set(d, P::kLead), x, hn::Mul(horner(d, x2, P::kSin), x));
}

/// cos and sin at `quadrant` quarters and x eighths of a turn.
template <class D, class V, class VU>
HWY_INLINE void cos_sin_at(D d, V x, VU quadrant, V& c, V& s) {
  using T = hn::TFromD<D>;
  const hn::RebindToUnsigned<D> du;
  using TU = hn::TFromD<decltype(du)>;
  constexpr int kToSign = 8 * sizeof(T) - 2;
  V cos = x;
  V sin = x;
  cos_sin_eighths(d, x, cos, sin);
  const auto one = hn::Set(du, TU{1});
  const auto two = hn::Set(du, TU{2});
  const auto swap = hn::RebindMask(d, hn::Eq(hn::And(quadrant, one), one));
  const auto cos_sign = hn::ShiftLeft<kToSign>(hn::And(hn::Add(quadrant, one), two));
  const auto sin_sign = hn::ShiftLeft<kToSign>(hn::And(quadrant, two));
  c = hn::Xor(hn::IfThenElse(swap, sin, cos), hn::BitCast(d, cos_sign));
  s = hn::Xor(hn::IfThenElse(swap, cos, sin), hn::BitCast(d, sin_sign));
}

#if ROTARY_CPU_IS_NEON
/// Coefficients in all lanes of a vector, read from memory each time: `fmla` overwrites its addend,
/// and a load costs less than a copy between registers, which takes one of two vector pipes.
template <std::size_t kCount>
struct WideCoefficients {
  explicit constexpr WideCoefficients(const std::array<float, kCount>& values) {
    for (std::size_t i = 0; i < kCount; ++i) {
      for (float& lane : at[i]) lane = values[i];
    }
  }
  HWY_INLINE float32x4_t load(std::size_t i) const {
    return *reinterpret_cast<const volatile float32x4_t*>(at[i]);
  }
  alignas(16) float at[kCount][4]{};
};
inline constexpr WideCoefficients kWideCos(EighthPolynomials<float>::kCos);
inline constexpr WideCoefficients kWideSin(EighthPolynomials<float>::kSin);

/// horner() of float.
template <std::size_t kCount>
HWY_INLINE float32x4_t wide_horner(float32x4_t x2, const WideCoefficients<kCount>& coefficients) {
  float32x4_t sum = coefficients.load(0);
  for (std::size_t i = 1; i < kCount; ++i) sum = vfmaq_f32(coefficients.load(i), sum, x2);
  return sum;
}

/// cos and sin in float, from the upper 32 bits of phases. The quadrant is the upper two bits of
/// `middle`; it is used there. The lower 30 bits, moved to the sign, are the rest.
template <class D, class VU, class V = hn::Vec<D>>
HWY_INLINE void cos_sin_of_tops(D /*d*/, VU top, float* c, float* s) {
  const uint32x4_t sign = vdupq_n_u32(1u << 31);
  const uint32x4_t middle = vaddq_u32(top.raw, vdupq_n_u32(1u << 29));
  const float32x4_t x = vcvtq_n_f32_s32(vreinterpretq_s32_u32(vshlq_n_u32(top.raw, 2)), 31);
  const float32x4_t x2 = vmulq_f32(x, x);
  const float32x4_t cos = wide_horner(x2, kWideCos);
  const float32x4_t lead = vdupq_n_f32(EighthPolynomials<float>::kLead);
  const float32x4_t sin = vfmaq_f32(vmulq_f32(wide_horner(x2, kWideSin), x), lead, x);
  const uint32x4_t swap = vtstq_u32(middle, vdupq_n_u32(1u << 30));
  const uint32x4_t cos_sign = vandq_u32(vaddq_u32(top.raw, vdupq_n_u32(3u << 29)), sign);
  const uint32x4_t sin_sign = vandq_u32(middle, sign);
  const auto flip = [](float32x4_t v, uint32x4_t bits) HWY_ATTR {
    return vreinterpretq_f32_u32(veorq_u32(vreinterpretq_u32_f32(v), bits));
  };
  vst1q_f32(c, flip(vbslq_f32(swap, sin, cos), cos_sign));
  vst1q_f32(s, flip(vbslq_f32(swap, cos, sin), sin_sign));
}
#else
/// cos and sin in float, from the upper 32 bits of phases.
template <class D, class VU, class V = hn::Vec<D>>
HWY_INLINE void cos_sin_of_tops(D d, VU top, float* c, float* s) {
  const hn::RebindToUnsigned<D> du;
  const hn::RebindToSigned<D> di;
  const auto quadrant = hn::ShiftRight<30>(hn::Add(top, hn::Set(du, 1u << 29)));
  const auto rest = hn::BitCast(di, hn::Sub(top, hn::ShiftLeft<30>(quadrant)));
  const V x = hn::Mul(hn::ConvertTo(d, rest), hn::Set(d, 0x1p-29f));
  V cos = x;
  V sin = x;
  cos_sin_at(d, x, quadrant, cos, sin);
  hn::StoreU(cos, d, c);
  hn::StoreU(sin, d, s);
}
#endif

/// c[i] and s[i] of `count` phases. Writes up to the next multiple of the vector's lanes.
HWY_INLINE void cos_sin_of(const std::uint64_t* HWY_RESTRICT phases, std::size_t count,
                           float* HWY_RESTRICT c, float* HWY_RESTRICT s) {
  HWY_ALIGN std::uint32_t tops[kMaxPhases];
  for (std::size_t i = 0; i < count; ++i) tops[i] = static_cast<std::uint32_t>(phases[i] >> 32);
  const FullTag<float> d;
  const hn::RebindToUnsigned<decltype(d)> du;
  for (std::size_t i = count; i < kMaxPhases && i % hn::Lanes(d) != 0; ++i) tops[i] = 0;
  for (std::size_t i = 0; i < count; i += hn::Lanes(d)) {
    cos_sin_of_tops(d, hn::Load(du, tops + i), c + i, s + i);
  }
}

#if ROTARY_CPU_IS_NEON
/// The upper half of 32-bit positions times fractions of a turn, for the pairs of one vector.
/// Widening multiplications in memory order, then the upper half of each product.
HWY_INLINE uint32x4_t phase_tops(uint32x4_t position, uint32x4_t low, uint32x4_t high) {
  const uint64x2_t lower_two = vmull_u32(vget_low_u32(low), vget_low_u32(position));
  const uint64x2_t upper_two = vmull_high_u32(low, position);
  const uint32x4_t product =
      vuzp2q_u32(vreinterpretq_u32_u64(lower_two), vreinterpretq_u32_u64(upper_two));
  return vmlaq_u32(product, high, position);
}

/// cos and sin of `rows` positions from `position` on, all below 2^32, `stride` apart in memory.
/// One vector of pairs of all rows after the other: from row to row their phases, 64 bits each,
/// grow by the fraction, which costs less than a product.
inline void cos_sin_of_range(std::uint32_t position, std::size_t rows,
                             const std::uint32_t* HWY_RESTRICT low,
                             const std::uint32_t* HWY_RESTRICT high, std::size_t count,
                             float* HWY_RESTRICT c, float* HWY_RESTRICT s, std::size_t stride) {
  const FullTag<float> d;
  using Top = hn::Vec<hn::RebindToUnsigned<decltype(d)>>;
  const uint32x2_t p = vdup_n_u32(position);
  const auto phase = [p](uint64x2_t fraction) HWY_ATTR {
    const uint64x2_t upper = vmull_u32(vshrn_n_u64(fraction, 32), p);
    return vmlal_u32(vshlq_n_u64(upper, 32), vmovn_u64(fraction), p);
  };
  for (std::size_t i = 0; i < count; i += 4) {
    const uint32x4_t f_low = vld1q_u32(low + i);
    const uint32x4_t f_high = vld1q_u32(high + i);
    const uint64x2_t fractions_0 = vreinterpretq_u64_u32(vzip1q_u32(f_low, f_high));
    const uint64x2_t fractions_1 = vreinterpretq_u64_u32(vzip2q_u32(f_low, f_high));
    uint64x2_t phases_0 = phase(fractions_0);
    uint64x2_t phases_1 = phase(fractions_1);
    for (std::size_t row = 0; row < rows; ++row) {
      const std::size_t at = row * stride + i;
      const uint32x4_t tops =
          vuzp2q_u32(vreinterpretq_u32_u64(phases_0), vreinterpretq_u32_u64(phases_1));
      cos_sin_of_tops(d, Top(tops), c + at, s + at);
      phases_0 = vaddq_u64(phases_0, fractions_0);
      phases_1 = vaddq_u64(phases_1, fractions_1);
    }
  }
}
#endif

#if HWY_TARGET != HWY_SCALAR
/// The usual case without phases in memory: one integer position p times fractions f of a turn,
/// given in two halves. Only the upper half of the 64-bit product is needed:
///   high(p_low f_low) + p_low f_high + p_high f_low    modulo 2^32.
HWY_INLINE void cos_sin_of(std::uint64_t position, const std::uint32_t* HWY_RESTRICT low,
                           const std::uint32_t* HWY_RESTRICT high, std::size_t count,
                           float* HWY_RESTRICT c, float* HWY_RESTRICT s) {
  const FullTag<float> d;
  const hn::RebindToUnsigned<decltype(d)> du;
  const auto p_low = hn::Set(du, static_cast<std::uint32_t>(position));
  const auto p_high = hn::Set(du, static_cast<std::uint32_t>(position >> 32));
#if ROTARY_CPU_IS_NEON
  const auto upper_half = [&](std::size_t i) HWY_ATTR {
    return phase_tops(p_low.raw, vld1q_u32(low + i), vld1q_u32(high + i));
  };
  using Top = hn::Vec<decltype(du)>;
  if (position >> 32 == 0) {
    for (std::size_t i = 0; i < count; i += 4) cos_sin_of_tops(d, Top(upper_half(i)), c + i, s + i);
    return;
  }
  for (std::size_t i = 0; i < count; i += 4) {
    cos_sin_of_tops(d, Top(vmlaq_u32(upper_half(i), vld1q_u32(low + i), p_high.raw)), c + i, s + i);
  }
#else
  const hn::Repartition<std::uint64_t, decltype(du)> dw;
  for (std::size_t i = 0; i < count; i += hn::Lanes(d)) {
    const auto f_low = hn::LoadU(du, low + i);
    const auto f_high = hn::LoadU(du, high + i);
    const auto even = hn::MulEven(p_low, f_low);
    const auto odd =
        hn::MulEven(p_low, hn::BitCast(du, hn::ShiftRight<32>(hn::BitCast(dw, f_low))));
    const auto upper = hn::OddEven(hn::BitCast(du, odd), hn::BitCast(du, hn::ShiftRight<32>(even)));
    const auto top = hn::Add(upper, hn::Add(hn::Mul(p_low, f_high), hn::Mul(p_high, f_low)));
    cos_sin_of_tops(d, top, c + i, s + i);
  }
#endif
}
#endif

HWY_INLINE void cos_sin_of(const std::uint64_t* HWY_RESTRICT phases, std::size_t count,
                           double* HWY_RESTRICT c, double* HWY_RESTRICT s) {
  // Scalar: not every target converts 64-bit integers. Compilers vectorise this where it does.
  HWY_ALIGN double eighths[kMaxPhases];
  HWY_ALIGN std::uint64_t quadrants[kMaxPhases];
  for (std::size_t i = 0; i < count; ++i) {
    const std::uint64_t quadrant = (phases[i] + (std::uint64_t{1} << 61)) >> 62;
    const auto rest = static_cast<std::int64_t>(phases[i] - (quadrant << 62));
    eighths[i] = static_cast<double>(rest) * 0x1p-61;
    quadrants[i] = quadrant;
  }
  const FullTag<double> d;
  const hn::RebindToUnsigned<decltype(d)> du;
  for (std::size_t i = count; i < kMaxPhases && i % hn::Lanes(d) != 0; ++i) {
    eighths[i] = 0.0;
    quadrants[i] = 0;
  }
  for (std::size_t i = 0; i < count; i += hn::Lanes(d)) {
    const auto x = hn::Load(d, eighths + i);
    auto cos = x;
    auto sin = x;
    cos_sin_at(d, x, hn::Load(du, quadrants + i), cos, sin);
    hn::StoreU(cos, d, c + i);
    hn::StoreU(sin, d, s + i);
  }
}

}  // namespace rotary::internal::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // ROTARY_CPU_COS_SIN_INL_H
