// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// Per target: float vectors to 8-bit elements, rounded to nearest (ties to even) and saturated, as
// kv_cache.h defines it. Each type:
//   kMax      the largest number
//   encode()  the elements in 32-bit lanes, as unsigned bytes

#if defined(ROTARY_CPU_QUANTIZE_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef ROTARY_CPU_QUANTIZE_INL_H
#undef ROTARY_CPU_QUANTIZE_INL_H
#else
#define ROTARY_CPU_QUANTIZE_INL_H
#endif

#include <hwy/highway.h>

#include <bit>
#include <cstdint>

#include "cpu/vectors-inl.h"
#include "support/float8.h"

HWY_BEFORE_NAMESPACE();
namespace rotary::internal::ROTARY_CPU_NAMESPACE {

/// 2^exponent.
constexpr float power_of_two(int exponent) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(127 + exponent) << 23);
}

template <int kMantissa, int kBias, std::uint32_t kMaxBits>
struct Float8Code {
  static constexpr float kMax = std::bit_cast<float>(kMaxBits);

  template <class D>
  static HWY_INLINE hn::Vec<hn::RebindToUnsigned<D>> encode(D d, hn::Vec<D> x) {
    const hn::RebindToUnsigned<D> du;
    constexpr int kShift = 23 - kMantissa;
    const auto sign = hn::And(hn::ShiftRight<24>(hn::BitCast(du, x)), hn::Set(du, 0x80u));
    const auto size = hn::Min(hn::Abs(x), hn::Set(d, kMax));
    // A sum with 2^(exponent + kShift) ends with the last bit of the result, so that the float unit
    // rounds; its lower bits are then the mantissa with its leading 1. Subnormals have the exponent
    // of the smallest normal number.
    const auto exponent = hn::Max(hn::And(size, hn::BitCast(d, hn::Set(du, 0x7f800000u))),
                                  hn::Set(d, power_of_two(1 - kBias)));
    const auto exponent_bits = hn::BitCast(du, exponent);
    const auto magic =
        hn::Add(exponent_bits, hn::Set(du, static_cast<std::uint32_t>(kShift) << 23));
    const auto sum = hn::BitCast(du, hn::Add(size, hn::BitCast(d, magic)));
    const auto base = hn::Sub(hn::ShiftRight<kShift>(exponent_bits),
                              hn::Set(du, static_cast<std::uint32_t>(128 - kBias) << kMantissa));
    const auto code = hn::Or(sign, hn::Add(hn::Sub(sum, magic), base));
    return hn::IfThenElse(hn::RebindMask(du, hn::Eq(x, x)), code, hn::Set(du, 0x7fu));
  }
};
using E4M3Code =
    Float8Code<kE4M3.mantissa_bits, kE4M3.bias, std::bit_cast<std::uint32_t>(kE4M3.max)>;
using E5M2Code =
    Float8Code<kE5M2.mantissa_bits, kE5M2.bias, std::bit_cast<std::uint32_t>(kE5M2.max)>;

struct Int8Code {
  static constexpr float kMax = 127.0f;

  template <class D>
  static HWY_INLINE hn::Vec<hn::RebindToUnsigned<D>> encode(D d, hn::Vec<D> x) {
    const hn::RebindToUnsigned<D> du;
    const auto number = hn::IfThenElseZero(hn::Eq(x, x), x);
    const auto bounded = hn::Min(hn::Max(number, hn::Set(d, -128.0f)), hn::Set(d, kMax));
    const auto magic = hn::Set(d, 0x1.8p23f);  // the sum's last bit is 1, also for negative numbers
    const auto whole = hn::Sub(hn::BitCast(du, hn::Add(bounded, magic)), hn::BitCast(du, magic));
    return hn::And(whole, hn::Set(du, 0xffu));
  }
};

/// Stores the elements of four vectors of codes.
template <class D, class V>
HWY_INLINE void store_codes(D d, V c0, V c1, V c2, V c3, std::uint8_t* to) {
#if ROTARY_CPU_IS_NEON
  (void)d;
  const uint16x8_t low = vuzp1q_u16(vreinterpretq_u16_u32(c0.raw), vreinterpretq_u16_u32(c1.raw));
  const uint16x8_t high = vuzp1q_u16(vreinterpretq_u16_u32(c2.raw), vreinterpretq_u16_u32(c3.raw));
  vst1q_u8(to, vuzp1q_u8(vreinterpretq_u8_u16(low), vreinterpretq_u8_u16(high)));
#else
  const hn::Rebind<std::uint8_t, D> d8;
  const hn::RebindToSigned<D> di;
  for (const V& code : {c0, c1, c2, c3}) {
    hn::StoreU(hn::DemoteTo(d8, hn::BitCast(di, code)), d8, to);
    to += hn::Lanes(d);
  }
#endif
}

}  // namespace rotary::internal::ROTARY_CPU_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // ROTARY_CPU_QUANTIZE_INL_H
