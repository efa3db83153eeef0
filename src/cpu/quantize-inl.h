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
    const auto bits = hn::BitCast(du, size);
    const auto odd = hn::And(hn::ShiftRight<kShift>(bits), hn::Set(du, 1u));
    const auto rounded = hn::Add(bits, hn::Add(odd, hn::Set(du, (1u << (kShift - 1)) - 1)));
    const auto normal = hn::Sub(hn::ShiftRight<kShift>(rounded),
                                hn::Set(du, static_cast<std::uint32_t>(127 - kBias) << kMantissa));
    // Subnormals are multiples of the smallest: a sum whose last bit that is lets the float unit
    // round.
    const auto magic = hn::Set(d, power_of_two(23 - (kBias - 1 + kMantissa)));
    const auto small = hn::Sub(hn::BitCast(du, hn::Add(size, magic)), hn::BitCast(du, magic));
    const auto is_small = hn::RebindMask(du, hn::Lt(size, hn::Set(d, power_of_two(1 - kBias))));
    const auto code = hn::Or(sign, hn::IfThenElse(is_small, small, normal));
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

}  // namespace rotary::internal::ROTARY_CPU_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // ROTARY_CPU_QUANTIZE_INL_H
