// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// The three variants named YaRN.

#include <gtest/gtest.h>

#include <algorithm>

#include "frequencies/expect.h"

namespace rotary {
namespace {

Real clamp01(const Real& x) { return std::min(std::max(x, Real(0)), Real(1)); }

// get_mscale of every implementation.
Real temperature(double factor, double m = 1.0) {
  return factor <= 1.0 ? Real(1) : Real(1) / 10 * m * log(Real(factor)) + 1;
}

/// The pair that makes `turns` rotations in the original context.
Real correction_dim(double turns, std::int64_t d, double theta, std::int64_t length) {
  return Real(d) * log(Real(length) / (Real(turns) * 2 * Real::pi())) / (2 * log(Real(theta)));
}

Real yarn_frequency(const Yarn& yarn, double theta, std::int64_t d, std::int64_t i) {
  Real low = correction_dim(yarn.beta_fast, d, theta, yarn.original_context);
  Real high = correction_dim(yarn.beta_slow, d, theta, yarn.original_context);
  if (yarn.truncate) {
    low = floor(low);
    high = ceil(high);
  }
  low = std::max(low, Real(0));
  high = std::min(high, Real(d - 1));
  if (low == high) high = high + Real(1) / 1000;
  const Real ramp = clamp01((Real(i) - low) / (high - low));
  const Real f = base_frequency(theta, d, i);
  return f / yarn.factor * ramp + f * (1 - ramp);
}

TEST(Yarn, RampOverPairNumbers) {
  for (const double factor : {0.5, 1.0, 2.0, 8.0, 40.0}) {
    for (const bool truncate : {true, false}) {
      for (const auto& betas : {std::pair{32.0, 1.0}, {16.0, 2.0}, {4.0, 0.5}}) {
        for (const std::int64_t length : {64, 2048, 4096, 32768, 1 << 20}) {
          for (const std::int64_t d : {2, 64, 128}) {
            const Yarn yarn{.factor = factor,
                            .original_context = length,
                            .beta_fast = betas.first,
                            .beta_slow = betas.second,
                            .truncate = truncate};
            const Frequencies f =
                make_frequencies({.rotary_dim = d, .theta = 1e4, .scaling = yarn});
            ASSERT_TRUE(ladder_is(f, d / 2,
                                  [&](std::int64_t i) { return yarn_frequency(yarn, 1e4, d, i); }))
                << "factor " << factor << " truncate " << truncate << " beta " << betas.first
                << " length " << length << " d " << d;
          }
        }
      }
    }
  }
}

// A context so short that both correction dims are 0: the ramp becomes a step behind pair 0.
TEST(Yarn, RampOfNoWidth) {
  const Yarn yarn{.factor = 4, .original_context = 6};
  const Frequencies f = make_frequencies({.rotary_dim = 64, .theta = 1e4, .scaling = yarn});
  EXPECT_EQ(f(0), 1.0);
  for (std::int64_t i = 1; i < 32; ++i)
    EXPECT_TRUE(near(f(i), base_frequency(1e4, 64, i) / 4)) << i;
}

// Equal betas without truncation: both dims are 7.9995, and pair 8 is half way up a ramp that is
// 0.001 wide. The ramp magnifies the rounding of the dims.
TEST(Yarn, RampOfNoWidthBetweenPairs) {
  const double beta = static_cast<double>(
      4096 / (2 * Real::pi() * pow(Real(1e4), Real(2) * Real(7.9995) / Real(64))));
  const Yarn yarn{.factor = 4,
                  .original_context = 4096,
                  .beta_fast = beta,
                  .beta_slow = beta,
                  .truncate = false};
  const Frequencies f = make_frequencies({.rotary_dim = 64, .theta = 1e4, .scaling = yarn});
  EXPECT_TRUE(near(f(7), base_frequency(1e4, 64, 7)));
  EXPECT_TRUE(near(f(8), yarn_frequency(yarn, 1e4, 64, 8), 1e-12));
  EXPECT_TRUE(near(f(8), base_frequency(1e4, 64, 8) * 0.625, 1e-9));
  EXPECT_TRUE(near(f(9), base_frequency(1e4, 64, 9) / 4));
}

TEST(Yarn, FactorUpToOneHasNoTemperature) {
  for (const double factor : {0.25, 1.0}) {
    const Frequencies f = make_frequencies(
        {.rotary_dim = 64,
         .theta = 1e4,
         .scaling = Yarn{
             .factor = factor, .original_context = 4096, .mscale = 2.0, .mscale_all_dim = 3.0}});
    EXPECT_EQ(f.scale, 1.0);
  }
}

Frequencies yarn_of(Yarn yarn) {
  yarn.original_context = 4096;
  return make_frequencies({.rotary_dim = 64, .theta = 1e4, .scaling = yarn});
}

TEST(Yarn, Scale) {
  EXPECT_TRUE(near(yarn_of({.factor = 4}).scale, temperature(4)));
  EXPECT_TRUE(near(yarn_of({.factor = 40, .mscale = 0.707, .mscale_all_dim = 0.707}).scale, 1));
  EXPECT_TRUE(near(yarn_of({.factor = 32, .mscale = 1.0, .mscale_all_dim = 0.5}).scale,
                   temperature(32, 1.0) / temperature(32, 0.5)));
  // One of the two alone, or zero, has no effect.
  EXPECT_TRUE(near(yarn_of({.factor = 4, .mscale = 0.5}).scale, temperature(4)));
  EXPECT_TRUE(near(yarn_of({.factor = 4, .mscale_all_dim = 0.5}).scale, temperature(4)));
  EXPECT_TRUE(
      near(yarn_of({.factor = 4, .mscale = 0.5, .mscale_all_dim = 0.0}).scale, temperature(4)));
  EXPECT_EQ(yarn_of({.factor = 4, .attention_factor = 1.25}).scale, 1.25);
  EXPECT_EQ(
      yarn_of({.factor = 4, .attention_factor = 1.0, .mscale = 2.0, .mscale_all_dim = 1.0}).scale,
      1.0);
}

// DeepSeek multiplies scores by mscale(factor, mscale_all_dim)^2, outside the rotation.
TEST(Yarn, SoftmaxCorrection) {
  constexpr auto kSquared = SoftmaxCorrection::kMscaleAllDimSquared;
  const auto scale = [](const Yarn& yarn) { return yarn_of(yarn).softmax_scale; };
  EXPECT_EQ(scale({.factor = 40, .mscale = 1.0, .mscale_all_dim = 1.0}), 1.0);
  const Real m = temperature(40, 0.707);
  EXPECT_TRUE(near(
      scale(
          {.factor = 40, .mscale = 0.707, .mscale_all_dim = 0.707, .softmax_correction = kSquared}),
      m * m));
  EXPECT_EQ(scale({.factor = 40, .softmax_correction = kSquared}), 1.0);
  EXPECT_EQ(scale({.factor = 40, .mscale_all_dim = 0.0, .softmax_correction = kSquared}), 1.0);
  EXPECT_EQ(scale({.factor = 1, .mscale_all_dim = 1.0, .softmax_correction = kSquared}), 1.0);
}

// gpt-oss (d 64, theta 150000, 4096 positions, factor 32) does not truncate: its range is 8.09 to
// 17.40, and with 8 to 18 pair 17 would be 76 % too fast.
TEST(Yarn, GptOss) {
  EXPECT_NEAR(static_cast<double>(correction_dim(32, 64, 150000, 4096)), 8.09, 0.005);
  EXPECT_NEAR(static_cast<double>(correction_dim(1, 64, 150000, 4096)), 17.40, 0.005);
  const auto made = [](bool truncate) {
    return make_frequencies(
        {.rotary_dim = 64,
         .theta = 150000,
         .scaling = Yarn{.factor = 32, .original_context = 4096, .truncate = truncate}});
  };
  const Frequencies exact = made(false);
  const Frequencies rounded = made(true);
  EXPECT_EQ(exact(8), static_cast<double>(base_frequency(150000, 64, 8)));
  EXPECT_LT(exact(9), static_cast<double>(base_frequency(150000, 64, 9)));
  EXPECT_TRUE(near(exact(18), base_frequency(150000, 64, 18) / 32));
  EXPECT_NEAR(rounded(17) / exact(17), 1.76, 0.005);
}

// Scale and inv_freq[63] as transformers prints them, in float32.
TEST(Yarn, PublishedNumbers) {
  const auto made = [](const Yarn& yarn) {
    return make_frequencies({.rotary_dim = 128, .theta = 1e4, .scaling = yarn});
  };
  const Frequencies four = made({.factor = 4, .original_context = 2048});
  EXPECT_TRUE(near(four(63), 2.8869548e-05, 1e-7));
  EXPECT_TRUE(near(four.scale, 1.1386294, 1e-7));
  const Frequencies many =
      made({.factor = 32, .original_context = 2048, .mscale = 1.0, .mscale_all_dim = 0.5});
  EXPECT_TRUE(near(many(63), 3.6086935e-06, 1e-7));
  EXPECT_TRUE(near(many.scale, 1.1476935, 1e-7));
}

// gamma = clamp((r - alpha)/(beta - alpha)), f' = (1 - gamma) f/s + gamma f, scale 0.1 ln s + 1.
TEST(YarnPaper, RampOverRotations) {
  for (const double s : {0.5, 1.0, 8.0, 16.0}) {
    for (const auto& ends : {std::pair{1.0, 32.0}, {0.0, 4.0}, {2.0, 3.0}}) {
      const double alpha = ends.first;
      const double beta = ends.second;
      const Frequencies f = make_frequencies(
          {.rotary_dim = 128,
           .theta = 1e4,
           .scaling =
               YarnPaper{.factor = s, .original_context = 4096, .alpha = alpha, .beta = beta}});
      EXPECT_TRUE(ladder_is(f, 64, [&](std::int64_t i) {
        const Real plain = base_frequency(1e4, 128, i);
        const Real gamma = clamp01((rotations(plain, 4096) - alpha) / (Real(beta) - Real(alpha)));
        return (1 - gamma) * plain / s + gamma * plain;
      })) << s;
      EXPECT_TRUE(near(f.scale, temperature(s)));
    }
  }
}

// The two variants differ by a factor of 3 in the middle (d 128, 4096 positions, factor 16).
TEST(YarnPaper, DiffersFromImplementations) {
  const auto made = [](const Scaling& scaling) {
    return make_frequencies({.rotary_dim = 128, .theta = 1e4, .scaling = scaling});
  };
  const Frequencies paper = made(YarnPaper{.factor = 16, .original_context = 4096});
  const Frequencies code = made(Yarn{.factor = 16, .original_context = 4096});
  double largest = 1.0;
  for (std::int64_t i = 0; i < 64; ++i) largest = std::max(largest, code(i) / paper(i));
  EXPECT_NEAR(largest, 3.04, 0.01);
}

Recipe walkthrough(std::int64_t d, double theta) {
  return {.rotary_dim = d,
          .theta = theta,
          .scaling = YarnWalkthrough{.factor = 16, .original_context = 2048, .beta_fast = 4}};
}

TEST(YarnWalkthrough, BothSidesOfTheOriginalContext) {
  for (const std::int64_t d : {2, 64, 128}) {
    for (const double theta : {1e4, 1e6}) {
      const Recipe recipe = walkthrough(d, theta);
      EXPECT_TRUE(depends_on_context(recipe));
      for (const std::int64_t context : {0, 100, 2048}) {
        EXPECT_TRUE(ladder_is(make_frequencies(recipe, context), d / 2,
                              [&](std::int64_t i) { return base_frequency(theta, d, i); }));
      }
      std::int64_t corr = d / 2;
      for (std::int64_t i = d / 2; i-- > 0;) {
        if (2 * Real::pi() / base_frequency(theta, d, i) > Real(2048)) corr = i;
      }
      EXPECT_TRUE(ladder_is(make_frequencies(recipe, 2049), d / 2, [&](std::int64_t i) {
        const Real beta = 1 + Real(3) * Real(i) / Real(std::max<std::int64_t>(d / 2 - 1, 1));
        const Real scale = i < corr ? (beta * 16 - beta + 1) / (beta * 16) : Real(1) / 16;
        return base_frequency(theta, d, i) * scale;
      })) << d;
    }
  }
}

TEST(YarnWalkthrough, DefaultsOfTheDocument) {
  const YarnWalkthrough defaults;
  EXPECT_EQ(defaults.beta_fast, 32.0);
  EXPECT_EQ(defaults.beta_slow, 1.0);
  EXPECT_EQ(defaults.ramp, WalkthroughRamp::kCode);
}

// The ramp of the prose is YaRN's up to the clamp at the last pair, without the temperature.
TEST(YarnWalkthrough, RampOfTheProse) {
  for (const std::int64_t d : {2, 64, 128}) {
    for (const double theta : {1e4, 1e6}) {
      Recipe recipe = walkthrough(d, theta);
      recipe.scaling =
          YarnWalkthrough{.factor = 16, .original_context = 2048, .ramp = WalkthroughRamp::kProse};
      EXPECT_TRUE(ladder_is(make_frequencies(recipe, 2048), d / 2,
                            [&](std::int64_t i) { return base_frequency(theta, d, i); }));
      const auto dim = [&](double r) {
        return Real(d) * log(Real(2048) / (2 * Real::pi() * Real(r))) / (2 * log(Real(theta)));
      };
      const double low = std::max(static_cast<double>(floor(dim(32))), 0.0);
      const double high =
          std::min(static_cast<double>(ceil(dim(1))), static_cast<double>(d / 2 - 1));
      const Frequencies f = make_frequencies(recipe, 2049);
      EXPECT_EQ(f.scale, 1.0);
      EXPECT_TRUE(ladder_is(f, d / 2, [&](std::int64_t i) {
        Real gamma = (Real(i) - Real(low)) / Real(std::max(high - low, 0.001));
        if (gamma < Real(0)) gamma = Real(0);
        if (gamma > Real(1)) gamma = Real(1);
        return base_frequency(theta, d, i) * (1 - gamma + gamma / 16);
      })) << d;
    }
  }
}

// Middle pairs are almost untouched where YaRN interpolates them; there is no temperature.
TEST(YarnWalkthrough, IsNotYarn) {
  const Frequencies f = make_frequencies(walkthrough(64, 1e6), 32768);
  EXPECT_EQ(f.scale, 1.0);
  double largest = 0.0;
  const Frequencies yarn = make_frequencies(
      {.rotary_dim = 64, .theta = 1e6, .scaling = Yarn{.factor = 16, .original_context = 2048}});
  for (std::int64_t i = 0; i < 32; ++i) largest = std::max(largest, f(i) / yarn(i) - 1.0);
  EXPECT_NEAR(largest, 4.8, 0.05);
  // Pair 13 keeps 0.965 of its frequency, YaRN leaves 0.167 of it.
  const Frequencies plain = make_frequencies({.rotary_dim = 64, .theta = 1e6});
  EXPECT_NEAR(f(13) / plain(13), 0.965, 5e-4);
  EXPECT_NEAR(yarn(13) / plain(13), 0.167, 5e-4);
}

// With the ramp of its prose it has YaRN's frequencies wherever the correction range ends before
// the last pair; the temperature stays 1.
TEST(YarnWalkthrough, ProseIsYarnWithoutTemperature) {
  for (const double theta : {1e5, 1e6}) {
    const Frequencies prose =
        make_frequencies({.rotary_dim = 128,
                          .theta = theta,
                          .scaling = YarnWalkthrough{.factor = 4,
                                                     .original_context = 32768,
                                                     .ramp = WalkthroughRamp::kProse}},
                         131072);
    const Frequencies yarn =
        make_frequencies({.rotary_dim = 128,
                          .theta = theta,
                          .scaling = Yarn{.factor = 4, .original_context = 32768}});
    EXPECT_EQ(prose.scale, 1.0);
    EXPECT_GT(yarn.scale, 1.13);
    for (std::int64_t i = 0; i < 64; ++i) {
      EXPECT_NEAR(prose(i) / yarn(i), 1.0, 1e-12) << theta << " " << i;
    }
  }
}

}  // namespace
}  // namespace rotary
