// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

#include <gtest/gtest.h>

#include <cstdint>

#include "frequencies/expect.h"

namespace rotary {
namespace {

Frequencies made(const Llama3& recipe) {
  return make_frequencies({.rotary_dim = 128, .theta = 5e5, .scaling = recipe});
}

// As Meta writes it, in wavelengths.
Real expected(const Llama3& recipe, std::int64_t i) {
  Real f = base_frequency(5e5, 128, i);
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
  // Each band has pairs: 29 kept, a ramp of 6, 29 divided.
  const Frequencies f = made({.factor = 8, .original_context = 8192});
  std::int64_t kept = 0;
  std::int64_t divided = 0;
  for (std::int64_t i = 0; i < 64; ++i) {
    if (near(f(i), base_frequency(5e5, 128, i))) ++kept;
    if (near(f(i), base_frequency(5e5, 128, i) / 8)) ++divided;
  }
  EXPECT_EQ(kept, 29);
  EXPECT_EQ(divided, 29);
}

// Llama-4 has equal factors: a step, where transformers would divide by zero.
TEST(Llama3, EqualFactorsMakeAStep) {
  const Frequencies f =
      made({.factor = 16, .original_context = 8192, .low_freq_factor = 1, .high_freq_factor = 1});
  EXPECT_TRUE(ladder_is(f, 64, [](std::int64_t i) {
    const Real plain = base_frequency(5e5, 128, i);
    return rotations(plain, 8192) > Real(1) ? plain : plain / 16;
  }));
}

// Pair 0 makes length / (2 pi) rotations, which is irrational: a step just below it leaves the pair
// alone, one just above divides it. 2^-50 is more than any rounding of that quotient.
TEST(Llama3, EqualFactorsDivideWhatIsNotAbove) {
  for (std::int64_t length = 1; length <= 16384; ++length) {
    const auto frequency = [length](double step) {
      return make_frequencies({.rotary_dim = 2,
                               .theta = 5e5,
                               .scaling = Llama3{.factor = 16,
                                                 .original_context = length,
                                                 .low_freq_factor = step,
                                                 .high_freq_factor = step}})(0);
    };
    const auto nearest = static_cast<double>(rotations(1, length));
    ASSERT_EQ(frequency(nearest * (1 - 0x1p-50)), 1.0) << length;
    ASSERT_EQ(frequency(nearest * (1 + 0x1p-50)), 1.0 / 16) << length;
    // The quotient may round to the step itself: one or the other, never the ramp's 0 / 0.
    const double at_step = frequency(nearest);
    ASSERT_TRUE(at_step == 1.0 || at_step == 1.0 / 16) << length << ": " << at_step;
  }
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
