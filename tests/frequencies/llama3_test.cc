// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

#include <gtest/gtest.h>

#include <numbers>

#include "frequencies/expect.h"

namespace rotary {
namespace {

Frequencies made(const Llama3& recipe) {
  return make_frequencies({.rotary_dim = 128, .theta = 5e5, .scaling = recipe});
}

// As Meta writes it, in wavelengths.
Real expected(const Llama3& recipe, std::int64_t i) {
  Real f = rung(5e5, 128, i);
  const Real wavelength = 2 * Real::pi() / f;
  const Real length = recipe.original_context;
  if (wavelength < length / recipe.high_freq_factor) return f;
  if (wavelength > length / recipe.low_freq_factor) return f / recipe.factor;
  const Real smooth = (length / wavelength - recipe.low_freq_factor) /
                      (Real(recipe.high_freq_factor) - recipe.low_freq_factor);
  return (1 - smooth) * f / recipe.factor + smooth * f;
}

TEST(Llama3, ThreeBands) {
  for (const Llama3& recipe :
       {Llama3{.factor = 8, .original_context = 8192},
        Llama3{.factor = 32, .original_context = 8192},
        Llama3{.factor = 16, .original_context = 4096, .low_freq_factor = 2, .high_freq_factor = 8},
        Llama3{.factor = 1, .original_context = 8192}}) {
    const Frequencies f = made(recipe);
    EXPECT_TRUE(ladder_is(f, 64, [&](std::int64_t i) { return expected(recipe, i); }));
    EXPECT_EQ(f.scale, 1.0);
  }
  // Each band has pairs in it: 29 fast ones, a ramp of 6, 29 slow ones.
  const Frequencies f = made({.factor = 8, .original_context = 8192});
  std::int64_t kept = 0;
  std::int64_t divided = 0;
  for (std::int64_t i = 0; i < 64; ++i) {
    if (near(f(i), rung(5e5, 128, i))) ++kept;
    if (near(f(i), rung(5e5, 128, i) / 8)) ++divided;
  }
  EXPECT_EQ(kept, 29);
  EXPECT_EQ(divided, 29);
}

// Llama-4 has equal factors: a step, where transformers would divide by zero.
TEST(Llama3, EqualFactorsMakeAStep) {
  const Frequencies f =
      made({.factor = 16, .original_context = 8192, .low_freq_factor = 1, .high_freq_factor = 1});
  EXPECT_TRUE(ladder_is(f, 64, [](std::int64_t i) {
    const Real plain = rung(5e5, 128, i);
    return rotations(plain, 8192) > Real(1) ? plain : plain / 16;
  }));
}

// A pair that makes exactly that many rotations is slow. Pair 0 makes length / (2 pi): the first
// length for which that is a double, in the arithmetic of the platform.
TEST(Llama3, OnTheStep) {
  const long double two_pi = 2.0L * std::numbers::pi_v<long double>;
  std::int64_t length = 1;
  const auto turns = [&] { return static_cast<long double>(length) / two_pi; };
  while (static_cast<long double>(static_cast<double>(turns())) != turns()) ++length;
  const auto step = static_cast<double>(turns());
  const Frequencies f = made({.factor = 16,
                              .original_context = length,
                              .low_freq_factor = step,
                              .high_freq_factor = step});
  EXPECT_EQ(f(0), 1.0 / 16);
}

// inv_freq of Llama-3.1 as transformers prints it, in float32.
TEST(Llama3, PublishedNumbers) {
  EXPECT_TRUE(near(made({.factor = 8, .original_context = 8192})(63), 3.068926e-07, 1e-6));
  EXPECT_TRUE(near(
      made({.factor = 16, .original_context = 4096, .low_freq_factor = 2, .high_freq_factor = 8})(
          63),
      1.534463e-07, 1e-6));
}

}  // namespace
}  // namespace rotary
