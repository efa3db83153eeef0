// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// expl, logl and powl for WebAssembly, whose long double has 113 bits: emscripten's C library
// computes them in double. Recipes are evaluated in long double and rounded once (src/frequencies);
// with these they have the bits of other machines. Relative errors are about 1e-31.
#include <array>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>

namespace {

constexpr long double kLn2 = 0.693147180559945309417232121458176568075500134360255L;

constexpr int kTerms = 14;

/// 1, 1/2, ...: divisions of long doubles are slow, as all of this is software.
constexpr std::array<long double, kTerms> kReciprocals = [] {
  std::array<long double, kTerms> all{};
  for (int k = 0; k < kTerms; ++k) all[static_cast<std::size_t>(k)] = 1.0L / (k + 1);
  return all;
}();

/// exp(r) for |r| <= ln 2 / 512: Taylor's series.
long double exp_series(long double r) {
  long double sum = 1.0L;
  for (std::size_t k = kTerms; k-- > 0;) sum = 1.0L + sum * r * kReciprocals[k];
  return sum;
}

/// logl, which for a ladder is always that of its base: the last one is kept. WebAssembly has one
/// thread.
long double log_of_base(long double x) {
  static long double last = 1.0L;
  static long double last_log = 0.0L;
  if (x != last) {
    last_log = logl(x);
    last = x;
  }
  return last_log;
}

struct Power {
  long double x = 0.0L;
  long double y = 0.0L;
  long double value = 0.0L;
};

/// Where the last power with such an exponent is kept: ropes of one model, and what each would be
/// without its scaling, are made from the same ladder.
Power& kept_power(long double x, long double y) {
  constexpr std::size_t kSlots = 1024;
  static std::array<Power, kSlots> kept{};
  const auto bits = std::bit_cast<std::uint64_t>(static_cast<double>(y)) ^
                    (std::bit_cast<std::uint64_t>(static_cast<double>(x)) << 7);
  return kept[(bits * 0x9e3779b97f4a7c15u) >> 54];
}

}  // namespace

extern "C" {

long double expl(long double x) {
  // Within the exponents of double, which is what results are rounded to.
  if (!(x > -700.0L && x < 700.0L)) return std::exp(static_cast<double>(x));
  const int n = static_cast<int>(std::lround(static_cast<double>(x / kLn2)));
  // exp(x) = 2^n exp(r / 256)^256
  long double power = exp_series((x - static_cast<long double>(n) * kLn2) / 256.0L);
  for (int k = 0; k < 8; ++k) power *= power;
  return std::ldexp(power, n);
}

long double logl(long double x) {
  const double start = std::log(static_cast<double>(x));
  if (!(x > 0.0L) || !std::isfinite(start)) return start;
  // Newton's method on exp(y) = x, from 16 digits; the correction log(1 + d) as its series.
  const long double d = x * expl(-static_cast<long double>(start)) - 1.0L;
  return static_cast<long double>(start) + d * (1.0L - d * (0.5L - d / 3.0L));
}

long double powl(long double x, long double y) {
  if (y == 0.0L || x == 1.0L) return 1.0L;
  if (!(x > 0.0L) || !std::isfinite(static_cast<double>(x * y))) {
    return std::pow(static_cast<double>(x), static_cast<double>(y));
  }
  Power& kept = kept_power(x, y);
  if (kept.x != x || kept.y != y) kept = {x, y, expl(y * log_of_base(x))};
  return kept.value;
}

}  // extern "C"
