// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// The plain ladder and the members of every recipe: direction, gain, ladder_dim.

#include <gtest/gtest.h>

#include <cmath>
#include <numbers>
#include <utility>
#include <variant>

#include "frequencies/expect.h"

namespace rotary {
namespace {

constexpr double kThetas[] = {100, 1e3, 1e4, 1.5e5, 5e5, 1e6, 1e7};

TEST(Default, EveryBaseAndSize) {
  for (const double theta : kThetas) {
    for (const std::int64_t d : {2, 4, 6, 20, 22, 64, 80, 96, 128, 256, 512, 1000}) {
      SCOPED_TRACE(testing::Message() << "theta " << theta << " d " << d);
      const Frequencies f = make_frequencies({.rotary_dim = d, .theta = theta});
      EXPECT_TRUE(ladder_is(f, d / 2, [&](std::int64_t i) { return base_frequency(theta, d, i); }));
      EXPECT_EQ(f(0), 1.0);
      EXPECT_EQ(f.rotary_dim(), d);
      EXPECT_EQ(f.scale, 1.0);
      EXPECT_EQ(f.softmax_scale, 1.0);
      EXPECT_TRUE(f.growth.empty());
    }
  }
}

TEST(Default, ExtremeBases) {
  for (const double theta : {0.25, 1.0, 2.0, 1e30}) {
    const Frequencies f = make_frequencies({.rotary_dim = 64, .theta = theta});
    EXPECT_TRUE(ladder_is(f, 32, [&](std::int64_t i) { return base_frequency(theta, 64, i); }))
        << theta;
  }
}

// The last frequency of inv_freq as transformers prints it, in float32.
TEST(Default, PublishedNumbers) {
  const auto last = [](std::int64_t d, double theta) {
    return make_frequencies({.rotary_dim = d, .theta = theta})(d / 2 - 1);
  };
  EXPECT_TRUE(near(last(32, 100), 0.013335215, 1e-6));
  EXPECT_TRUE(near(last(128, 1e4), 0.00011547819, 1e-6));
  EXPECT_TRUE(near(last(80, 5e5), 2.7765411e-06, 1e-6));
  EXPECT_TRUE(near(last(128, 1e7), 1.286397e-07, 1e-6));
}

TEST(Default, ContextDoesNotMatter) {
  const Recipe recipe{.rotary_dim = 64, .theta = 1e4};
  EXPECT_EQ(make_frequencies(recipe, 1 << 30).values, make_frequencies(recipe).values);
  EXPECT_FALSE(depends_on_context(recipe));
}

// The largest rotary_dim that is accepted.
TEST(Default, AMillionDims) {
  const std::int64_t most = 1 << 20;
  const Frequencies f = make_frequencies({.rotary_dim = most, .theta = 1e4});
  ASSERT_EQ(f.pairs, most / 2);
  EXPECT_TRUE(near(f(most / 2 - 1), base_frequency(1e4, most, most / 2 - 1)));
}

TEST(Linear, DividesEveryFrequency) {
  for (const double factor : {0.5, 1.0, 2.0, 8.0, 16.5}) {
    const Frequencies f =
        make_frequencies({.rotary_dim = 256, .theta = 1e6, .scaling = Linear{.factor = factor}});
    EXPECT_TRUE(
        ladder_is(f, 128, [&](std::int64_t i) { return base_frequency(1e6, 256, i) / factor; }));
    EXPECT_EQ(f.scale, 1.0);
  }
}

// GLM-4.5: half of a head of 42 is 21 dims; transformers rotates 22 with d = 21.
TEST(LadderDim, Odd) {
  const Frequencies f = make_frequencies({.rotary_dim = 22, .theta = 1e6, .ladder_dim = 21});
  EXPECT_TRUE(ladder_is(f, 11, [&](std::int64_t i) { return base_frequency(1e6, 21, i); }));
}

TEST(LadderDim, WiderThanTheSlice) {
  const Frequencies f = make_frequencies(
      {.rotary_dim = 16, .theta = 1e4, .ladder_dim = 64, .scaling = Linear{.factor = 3}});
  EXPECT_TRUE(ladder_is(f, 8, [&](std::int64_t i) { return base_frequency(1e4, 64, i) / 3; }));
}

TEST(RotationDirection, BackwardNegatesFrequencies) {
  const Frequencies forward = make_frequencies({.rotary_dim = 64, .theta = 1e5});
  const Frequencies backward =
      make_frequencies({.rotary_dim = 64, .theta = 1e5, .direction = RotationDirection::kBackward});
  for (std::int64_t i = 0; i < 32; ++i) EXPECT_EQ(backward(i), -forward(i));
}

// DINOv3: coordinates in [-1, 1] count turns.
TEST(Gain, MultipliesEveryFrequency) {
  const double two_pi = 2.0 * std::numbers::pi;
  const Frequencies f = make_frequencies({.rotary_dim = 32, .theta = 100, .gain = two_pi});
  EXPECT_TRUE(
      ladder_is(f, 16, [&](std::int64_t i) { return two_pi * base_frequency(100, 32, i); }));
}

TEST(Gain, KeepsZeroFrequencies) {
  const Frequencies f = make_frequencies({.rotary_dim = 8,
                                          .theta = 1e4,
                                          .scaling = Proportional{.fraction = 0.5},
                                          .direction = RotationDirection::kBackward,
                                          .gain = 3});
  EXPECT_EQ(f(3), 0.0);
  EXPECT_FALSE(std::signbit(f(3)));
}

TEST(Names, OneForEachScaling) {
  const std::pair<Scaling, std::string_view> names[] = {{Plain{}, "default"},
                                                        {Linear{}, "linear"},
                                                        {Ntk{}, "ntk"},
                                                        {NtkAlpha{}, "ntk_alpha"},
                                                        {DynamicNtk{}, "dynamic"},
                                                        {Yarn{}, "yarn"},
                                                        {YarnPaper{}, "yarn_paper"},
                                                        {YarnWalkthrough{}, "yarn_walkthrough"},
                                                        {LongRope{}, "longrope"},
                                                        {Llama3{}, "llama3"},
                                                        {Proportional{}, "proportional"},
                                                        {Divisors{}, "divisors"},
                                                        {Learnable{}, "learnable"},
                                                        {ReceptiveField{}, "receptive_field"},
                                                        {Xpos{}, "xpos"}};
  EXPECT_EQ(std::size(names), std::variant_size_v<Scaling>);
  for (const auto& [scaling, name] : names) EXPECT_EQ(name_of(scaling), name);
}

}  // namespace
}  // namespace rotary
