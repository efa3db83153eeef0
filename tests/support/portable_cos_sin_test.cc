// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// portable_cos_sin against MPFR, and its bits.
#include "support/portable_cos_sin.h"

#include <gtest/gtest.h>
#include <mpfr.h>

#include <cmath>
#include <cstdint>
#include <limits>
#include <random>

namespace rotary::internal {
namespace {

constexpr double kMaxError = 2e-16;

class Reference {
 public:
  explicit Reference(double angle) {
    mpfr_inits2(200, angle_, cos_, sin_, nullptr);
    mpfr_set_d(angle_, angle, MPFR_RNDN);
    mpfr_sin_cos(sin_, cos_, angle_, MPFR_RNDN);
  }
  ~Reference() { mpfr_clears(angle_, cos_, sin_, nullptr); }
  Reference(const Reference&) = delete;
  Reference& operator=(const Reference&) = delete;

  double cos_error(double value) { return error(cos_, value); }
  double sin_error(double value) { return error(sin_, value); }

 private:
  static double error(mpfr_t exact, double value) {
    mpfr_sub_d(exact, exact, value, MPFR_RNDN);
    return std::fabs(mpfr_get_d(exact, MPFR_RNDN));
  }

  mpfr_t angle_;
  mpfr_t cos_;
  mpfr_t sin_;
};

void expect_close(double angle) {
  const auto [c, s] = portable_cos_sin(angle);
  Reference reference(angle);
  EXPECT_LE(reference.cos_error(c), kMaxError) << angle;
  EXPECT_LE(reference.sin_error(s), kMaxError) << angle;
}

TEST(PortableCosSin, IsCloseAtEveryMagnitude) {
  std::mt19937_64 random(1);
  for (int exponent = -60; exponent < 45; ++exponent) {
    std::uniform_real_distribution<double> mantissa(-2.0, 2.0);
    for (int k = 0; k < 200; ++k) expect_close(std::ldexp(mantissa(random), exponent - 1));
  }
}

TEST(PortableCosSin, IsCloseNearMultiplesOfAQuarterTurn) {
  for (const double k : {1.0, 2.0, 3.0, 1001.0, 1048577.0, 4398046511103.0}) {
    const double angle = k * 0x1.921fb54442d18p+0;
    for (double x : {std::nextafter(angle, 0.0), angle, std::nextafter(angle, 1e300)}) {
      expect_close(x);
      expect_close(-x);
    }
  }
}

TEST(PortableCosSin, IsTheCLibrarysBeyondItsRange) {
  EXPECT_EQ(portable_cos_sin(0x1p50).cos, std::cos(0x1p50));
  EXPECT_TRUE(std::isnan(portable_cos_sin(std::numeric_limits<double>::infinity()).sin));
}

TEST(PortableCosSin, HasTheSameBitsOnEveryMachine) {
  std::uint64_t hash = 14695981039346656037u;
  for (int k = 1; k <= 10000; ++k) {
    const auto [c, s] = portable_cos_sin(k * 0.7390851332151607 * k);
    for (const double value : {c, s}) {
      hash = (hash ^ static_cast<std::uint64_t>(static_cast<std::int64_t>(value * 0x1p52))) *
             1099511628211u;
    }
  }
  EXPECT_EQ(hash, 3096439709388044636u);
}

}  // namespace
}  // namespace rotary::internal
