// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

#include <gtest/gtest.h>

#include "frequencies/expect.h"

namespace rotary {
namespace {

// f_i = (theta k)^(-2i/d) / k^(2/d)
TEST(Ntk, Plain) {
  for (const double k : {1.0, 1.5, 8.0, 32.0}) {
    for (const std::int64_t d : {2, 64, 128}) {
      const Frequencies f =
          make_frequencies({.rotary_dim = d, .theta = 1e4, .scaling = Ntk{.factor = k}});
      EXPECT_TRUE(ladder_is(f, d / 2,
                            [&](std::int64_t i) {
                              return base_frequency(Real(1e4) * k, d, i) /
                                     pow(Real(k), Real(2) / Real(d));
                            }))
          << "k " << k << " d " << d;
    }
  }
}

// The purpose of the formula: the lowest frequency is divided by exactly k, as in interpolation.
TEST(Ntk, SlowestPairIsInterpolated) {
  const Frequencies f =
      make_frequencies({.rotary_dim = 128, .theta = 1e4, .scaling = Ntk{.factor = 8}});
  EXPECT_TRUE(near(f(63), base_frequency(1e4, 128, 63) / 8));
}

// f_i / exp(a (i+1)^b), a = ln k / (d/2)^b
TEST(Ntk, MixedB) {
  for (const double b : {0.25, 0.625, 1.0}) {
    const Frequencies f = make_frequencies(
        {.rotary_dim = 128, .theta = 1e4, .scaling = Ntk{.factor = 8, .mixed_b = b}});
    EXPECT_TRUE(ladder_is(f, 64, [&](std::int64_t i) {
      const Real a = log(Real(8)) / pow(Real(64), Real(b));
      return base_frequency(1e4, 128, i) / exp(a * pow(Real(i + 1), Real(b)));
    })) << b;
    EXPECT_TRUE(near(f(63), base_frequency(1e4, 128, 63) / 8));
  }
}

// theta' = theta alpha^(d/(d-2)). Hunyuan: alpha 1000 over theta 1e4, d 128.
TEST(NtkAlpha, ChangesTheBase) {
  for (const double alpha : {0.5, 1.0, 2.0, 1000.0}) {
    for (const std::int64_t d : {4, 64, 128}) {
      const Frequencies f =
          make_frequencies({.rotary_dim = d, .theta = 1e4, .scaling = NtkAlpha{.alpha = alpha}});
      const Real theta = Real(1e4) * pow(Real(alpha), Real(d) / Real(d - 2));
      EXPECT_TRUE(ladder_is(f, d / 2, [&](std::int64_t i) { return base_frequency(theta, d, i); }));
      // The highest frequency is kept, the lowest divided by alpha.
      EXPECT_EQ(f(0), 1.0);
      EXPECT_TRUE(near(f(d / 2 - 1), base_frequency(1e4, d, d / 2 - 1) / alpha));
    }
  }
}

TEST(DynamicNtk, BelowAtAndAboveTheOriginalContext) {
  for (const double factor : {1.0, 2.0, 16.5}) {
    const Recipe recipe{.rotary_dim = 128,
                        .theta = 1e4,
                        .scaling = DynamicNtk{.factor = factor, .original_context = 8192}};
    EXPECT_TRUE(depends_on_context(recipe));
    const auto plain = [](std::int64_t i) { return base_frequency(1e4, 128, i); };
    for (const std::int64_t context : {0, 1, 8191, 8192}) {
      EXPECT_TRUE(ladder_is(make_frequencies(recipe, context), 64, plain)) << context;
    }
    for (const std::int64_t context : {8193, 16384, 1000001}) {
      const Real gain = Real(factor) * Real(context) / 8192 - (Real(factor) - 1);
      const Real theta = Real(1e4) * pow(gain, Real(128) / 126);
      EXPECT_TRUE(ladder_is(make_frequencies(recipe, context), 64, [&](std::int64_t i) {
        return base_frequency(theta, 128, i);
      })) << context;
    }
  }
}

// inv_freq[63] of transformers for a batch whose largest position is 1,000,000, in float32.
TEST(DynamicNtk, PublishedNumbers) {
  const auto last = [](double factor) {
    return make_frequencies({.rotary_dim = 128,
                             .theta = 1e4,
                             .scaling = DynamicNtk{.factor = factor, .original_context = 8192}},
                            1000001)(63);
  };
  EXPECT_TRUE(near(last(1.0), 9.459965e-07, 1e-6));
  EXPECT_TRUE(near(last(4.0), 2.3796116e-07, 1e-6));
}

}  // namespace
}  // namespace rotary
