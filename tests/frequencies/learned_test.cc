// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// Adjusted and learned frequencies: proportional, divisors, learnable, receptive field, xPos.

#include <gtest/gtest.h>

#include <cmath>
#include <complex>

#include "frequencies/expect.h"

namespace rotary {
namespace {

Frequencies made(const Scaling& scaling, std::int64_t d = 64) {
  return make_frequencies({.rotary_dim = d, .theta = 1e4, .scaling = scaling});
}

// n = int(fraction * d // 2) pairs have the frequencies of the whole head, the others 0.
TEST(Proportional, FastestPairsKeepTheLadderOfTheHead) {
  struct Case {
    double fraction;
    std::int64_t d;
    std::int64_t turning;
  };
  for (const Case& c : {Case{0.25, 512, 64},
                        {0.5, 128, 32},
                        {0.0, 8, 0},
                        {1.0, 8, 4},
                        {0.3, 22, 3},
                        {0.334, 192, 32}}) {
    for (const double factor : {1.0, 8.0}) {
      const Frequencies f = made(Proportional{.fraction = c.fraction, .factor = factor}, c.d);
      EXPECT_TRUE(ladder_is(f, c.d / 2,
                            [&](std::int64_t i) {
                              return i < c.turning ? base_frequency(1e4, c.d, i) / factor : Real(0);
                            }))
          << c.fraction << " of " << c.d;
    }
  }
}

TEST(Divisors, DivideEachPair) {
  std::vector<double> divisor(32, 1e30);  // GGUF's form of frequency 0
  for (std::size_t i = 0; i < 16; ++i) divisor[i] = 1.0 + 0.37 * static_cast<double>(i);
  EXPECT_TRUE(ladder_is(made(Divisors{divisor}), 32, [&](std::int64_t i) {
    return base_frequency(1e4, 64, i) / divisor[static_cast<std::size_t>(i)];
  }));
}

TEST(Learnable, GainsAreExponentials) {
  std::vector<double> gain(32);
  for (std::size_t i = 0; i < 32; ++i) gain[i] = 0.4 * std::sin(1.0 + static_cast<double>(i));
  EXPECT_TRUE(ladder_is(made(Learnable{gain}), 32, [&](std::int64_t i) {
    return base_frequency(1e4, 64, i) * exp(Real(gain[static_cast<std::size_t>(i)]));
  }));
}

// Training starts from the default, bit for bit.
TEST(Learnable, ZeroGainsAreTheDefault) {
  for (const std::int64_t d : {2, 64, 128, 512}) {
    const std::vector<double> zeros(static_cast<std::size_t>(d / 2), 0.0);
    EXPECT_EQ(made(Learnable{zeros}, d).values, made(Plain{}, d).values);
  }
}

TEST(ReceptiveField, AddsACommonFrequency) {
  for (const double alpha : {-0.5, 0.0, 0.25, 1.0}) {
    for (const double rho : {0.5, 1.0, 2.0}) {
      const Frequencies f = made(ReceptiveField{.alpha = alpha, .rho = rho});
      EXPECT_TRUE(ladder_is(f, 32, [&](std::int64_t i) {
        return Real(alpha) / pow(Real(10000), Real(rho)) +
               (1 - Real(alpha)) * base_frequency(1e4, 64, i);
      })) << alpha;
    }
  }
  EXPECT_EQ(made(ReceptiveField{.alpha = 0.0}).values, made(Plain{}).values);
}

// The score of two tokens x apart is the real part of sum_i h_i e^(i x f_i). The identity of the
// variant: cos(x phi) a'(x) - sin(x phi) b'(x), with a' and b' the real and imaginary part of the
// sum over (1 - alpha) f_i and phi = alpha / 10000^rho.
TEST(ReceptiveField, Identity) {
  const double alpha = 0.3;
  const double rho = 0.5;
  const double phi = alpha / std::pow(10000.0, rho);
  const Frequencies whole = made(ReceptiveField{.alpha = alpha, .rho = rho});
  const Frequencies plain = made(Plain{});
  for (int x = -300; x <= 300; x += 7) {
    std::complex<double> score = 0.0;
    std::complex<double> inner = 0.0;
    for (std::int64_t i = 0; i < 32; ++i) {
      const std::complex<double> h(std::cos(3.0 * static_cast<double>(i)),
                                   0.1 * std::sin(5.0 * static_cast<double>(i)));
      score += h * std::polar(1.0, x * whole(i));
      inner += h * std::polar(1.0, x * (1.0 - alpha) * plain(i));
    }
    EXPECT_NEAR(score.real(), std::cos(x * phi) * inner.real() - std::sin(x * phi) * inner.imag(),
                1e-11)
        << x;
  }
}

// zeta_i = (2i + 0.4 d) / (1.4 d), growth ln(zeta_i) / 512 per position.
TEST(Xpos, GrowthBesideTheDefaultFrequencies) {
  for (const double scale_base : {256.0, 512.0}) {
    const Frequencies f = made(Xpos{.scale_base = scale_base, .origin = 1024.0});
    EXPECT_EQ(f.values, made(Plain{}).values);
    EXPECT_EQ(f.growth_origin, 1024.0);
    ASSERT_EQ(f.growth.size(), 32u);
    for (std::int64_t i = 0; i < 32; ++i) {
      const Real gamma = 0.4;
      const Real zeta = (Real(2 * i) + gamma * 64) / ((1 + gamma) * 64);
      EXPECT_TRUE(near(f.growth[static_cast<std::size_t>(i)], log(zeta) / scale_base)) << i;
    }
  }
}

TEST(Xpos, KeysShrinkAsQueriesGrow) {
  const Frequencies query = made(Xpos{});
  const Frequencies key = with_inverse_growth(query);
  EXPECT_EQ(key.values, query.values);
  for (std::size_t i = 0; i < 32; ++i) EXPECT_EQ(key.growth[i], -query.growth[i]);
  const Frequencies plain = made(Plain{});
  EXPECT_EQ(with_inverse_growth(plain).values, plain.values);
  EXPECT_TRUE(with_inverse_growth(plain).growth.empty());
}

}  // namespace
}  // namespace rotary
