// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// The phase as a fixed-point number of turns, and its cosine and sine.
//
// A phase is a uint64 with 2^64 for one turn, so wrapping arithmetic *is* reduction modulo one
// turn, exact for any position. A frequency is held as turns per position, whole.fraction with 64
// bits of fraction; integer positions need only the fraction.
//
// Every engine uses the same integers and the same polynomials with fused multiply-add, so all give
// the same bits. This header is the definition that they are tested against. docs/numerics.md
// derives the error bounds.
#pragma once

#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>

namespace rotary::internal {

/// frequency / (2 pi) = whole + fraction / 2^64 turns per position.
struct Turns {
  std::uint64_t fraction = 0;
  std::int64_t whole = 0;
};

/// Largest |frequency| that to_turns accepts: 2^31 radians per position.
inline constexpr double kMaxRadians = 0x1p31;

/// Exact to half a unit of 2^-64 turns. `radians` is finite and within kMaxRadians.
Turns to_turns(double radians) noexcept;

/// Upper 64 bits of the 128-bit product.
inline std::uint64_t multiply_high(std::uint64_t a, std::uint64_t b) noexcept {
  __extension__ using uint128 = unsigned __int128;
  return static_cast<std::uint64_t>((static_cast<uint128>(a) * b) >> 64);
}

/// A position in fixed point: sign * (count + rest / 2^64). The count of an integer is its two's
/// complement; real positions are held as magnitude and sign.
struct FixedPosition {
  std::uint64_t count = 0;  // the whole part, modulo 2^64
  std::uint64_t rest = 0;
  bool negative = false;
};

inline FixedPosition to_fixed(std::int64_t position) noexcept {
  return {.count = static_cast<std::uint64_t>(position), .rest = 0, .negative = false};
}
FixedPosition to_fixed(double position) noexcept;

/// Phase at a position: a wrapping product for the integer part, a 64 x 64 bit one for the
/// fraction. An integer gives the same phase as the equal real, and phase_at(-p) = -phase_at(p).
inline std::uint64_t phase_at(const FixedPosition& position, Turns turns) noexcept {
  const std::uint64_t phase = position.count * turns.fraction +
                              multiply_high(position.rest, turns.fraction) +
                              position.rest * static_cast<std::uint64_t>(turns.whole);
  return position.negative ? ~phase + 1 : phase;
}
inline std::uint64_t phase_at(std::int64_t position, Turns turns) noexcept {
  return phase_at(to_fixed(position), turns);
}
inline std::uint64_t phase_at(double position, Turns turns) noexcept {
  return phase_at(to_fixed(position), turns);
}

template <typename T>
struct CosSin {
  T cos;
  T sin;
};

/// Coefficients in x^2, highest power first, of
///   cos(pi/4 x) = c(x^2)   and   sin(pi/4 x) = lead * x + x * s(x^2)      for |x| <= 1.
/// Minimax polynomials; errors of the polynomials alone: float 4.8e-10 and 2.4e-9, double 3.2e-19
/// and 1.2e-20. The leading coefficient of the sine is held in two parts, `lead` and the last of s.
template <typename T>
struct EighthPolynomials;

template <>
struct EighthPolynomials<float> {
  static constexpr std::array<float, 5> kCos = {0x1.d61e28p-19f, -0x1.55b684p-12f, 0x1.03c1b6p-6f,
                                                -0x1.3bd3ccp-2f, 1.0f};
  static constexpr std::array<float, 4> kSin = {-0x1.2d9e5ap-15f, 0x1.465edcp-9f, -0x1.4abbbap-4f,
                                                -0x1.9e5eep-26f};
  static constexpr float kLead = 0x1.921fb6p-1f;
};

template <>
struct EighthPolynomials<double> {
  static constexpr std::array<double, 9> kCos = {
      -0x1.4bcbc768f9ebap-49, -0x1.a7710ff734ecap-42, 0x1.f9b94b1a187aap-34,
      -0x1.a6d1db3215e53p-26, 0x1.e1f50671a9b89p-19,  -0x1.55d3c7e3bf18bp-12,
      0x1.03c1f081b5a53p-6,   -0x1.3bd3cc9be45dep-2,  1.0};
  static constexpr std::array<double, 8> kSin = {
      -0x1.6f1cc0b35b05cp-46, 0x1.e8f90202918b1p-38, -0x1.e3075a5019d1dp-30, 0x1.50783490f1be5p-22,
      -0x1.32d2cce6337eap-15, 0x1.466bc6775ab46p-9,  -0x1.4abbce625be53p-4,  0x1.1ae50a6eefce4p-55};
  static constexpr double kLead = 0x1.921fb54442d18p-1;
};

template <typename T>
CosSin<T> cos_sin_eighth(T x) noexcept {
  using Polynomials = EighthPolynomials<T>;
  const T x2 = x * x;
  const auto horner = [x2](const auto& coefficients) {
    T sum = coefficients[0];
    for (std::size_t i = 1; i < coefficients.size(); ++i) sum = std::fma(sum, x2, coefficients[i]);
    return sum;
  };
  return {horner(Polynomials::kCos),
          std::fma(Polynomials::kLead, x, horner(Polynomials::kSin) * x)};
}

/// cos and sin of the full circle from those of the eighth. `quadrant` is 0 to 3.
template <typename T>
CosSin<T> in_quadrant(CosSin<T> z, unsigned quadrant) noexcept {
  switch (quadrant & 3u) {
    case 0:
      return z;
    case 1:
      return {-z.sin, z.cos};
    case 2:
      return {-z.cos, -z.sin};
    default:
      return {z.sin, -z.cos};
  }
}

/// cos and sin of a phase. float uses the upper 32 bits: nearest quadrant from the top two, the
/// remaining signed 30 become x in [-1, 1) eighths of a turn. double does the same with all 64.
/// Errors against the 64-bit phase, rounding included: float 7.0e-8, double 1.4e-16. Exact at
/// quarter turns.
template <typename T>
CosSin<T> cos_sin(std::uint64_t phase) noexcept;

template <>
inline CosSin<float> cos_sin<float>(std::uint64_t phase) noexcept {
  const auto top = static_cast<std::uint32_t>(phase >> 32);
  const std::uint32_t quadrant = (top + (1u << 29)) >> 30;
  const auto rest = static_cast<std::int32_t>(top - (quadrant << 30));
  return in_quadrant(cos_sin_eighth(static_cast<float>(rest) * 0x1p-29f), quadrant);
}

template <>
inline CosSin<double> cos_sin<double>(std::uint64_t phase) noexcept {
  const std::uint64_t quadrant = (phase + (std::uint64_t{1} << 61)) >> 62;
  const auto rest = static_cast<std::int64_t>(phase - (quadrant << 62));
  return in_quadrant(cos_sin_eighth(static_cast<double>(rest) * 0x1p-61),
                     static_cast<unsigned>(quadrant));
}

}  // namespace rotary::internal
