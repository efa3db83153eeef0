// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

#include <gtest/gtest.h>

#include "frequencies/expect.h"

namespace rotary {
namespace {

constexpr std::int64_t kDim = 96;
constexpr std::int64_t kOriginal = 4096;

double short_at(std::int64_t i) { return 1.0 + 0.01 * static_cast<double>(i); }
double long_at(std::int64_t i) { return 1.08 + 1.3 * static_cast<double>(i); }

LongRope phi() {
  LongRope recipe{.original_context = kOriginal, .factor = 32};
  for (std::int64_t i = 0; i < kDim / 2; ++i) {
    recipe.short_factor.push_back(short_at(i));
    recipe.long_factor.push_back(long_at(i));
  }
  return recipe;
}

Frequencies made(const LongRope& recipe, std::int64_t context) {
  return make_frequencies({.rotary_dim = kDim, .theta = 1e4, .scaling = recipe}, context);
}

// The long list is for positions past the original context; exactly at it, the short one holds.
TEST(LongRope, ShortUpToTheOriginalContextThenLong) {
  EXPECT_TRUE(depends_on_context({.rotary_dim = kDim, .theta = 1e4, .scaling = phi()}));
  for (const std::int64_t context : {std::int64_t{0}, std::int64_t{1}, kOriginal}) {
    EXPECT_TRUE(ladder_is(made(phi(), context), kDim / 2, [](std::int64_t i) {
      return 1 / (Real(short_at(i)) * pow(Real(1e4), Real(2 * i) / Real(kDim)));
    })) << context;
  }
  for (const std::int64_t context : {kOriginal + 1, std::int64_t{131072}}) {
    EXPECT_TRUE(ladder_is(made(phi(), context), kDim / 2, [](std::int64_t i) {
      return 1 / (Real(long_at(i)) * pow(Real(1e4), Real(2 * i) / Real(kDim)));
    })) << context;
  }
}

TEST(LongRope, ScaleIsTheSameInBothRegimes) {
  const Real expected = sqrt(1 + log(Real(32)) / log(Real(kOriginal)));
  EXPECT_TRUE(near(made(phi(), 0).scale, expected));
  EXPECT_TRUE(near(made(phi(), 131072).scale, expected));
  EXPECT_TRUE(near(made(phi(), 0).scale, 1.1902381, 1e-7));  // transformers, Phi-3

  LongRope recipe = phi();
  recipe.factor = 16;
  EXPECT_TRUE(near(made(recipe, 131072).scale, 1.1547005, 1e-7));  // transformers
  for (const double factor : {0.5, 1.0}) {
    recipe.factor = factor;
    EXPECT_EQ(made(recipe, 0).scale, 1.0);
  }
  recipe.factor = 32;
  recipe.attention_factor = 1.19;
  EXPECT_EQ(made(recipe, 0).scale, 1.19);
  EXPECT_EQ(made(recipe, 131072).scale, 1.19);
}

// Phi-MoE gives a scale for each regime.
TEST(LongRope, MscaleOfEachRegime) {
  LongRope recipe = phi();
  recipe.attention_factor = 1.19;
  recipe.short_mscale = 1.243163121016122;
  recipe.long_mscale = 1.25;
  EXPECT_EQ(made(recipe, kOriginal).scale, 1.243163121016122);
  EXPECT_EQ(made(recipe, kOriginal + 1).scale, 1.25);
  recipe.long_mscale.reset();
  EXPECT_EQ(made(recipe, kOriginal + 1).scale, 1.19);
}

}  // namespace
}  // namespace rotary
