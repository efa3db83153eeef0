// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// Resonance: wavelengths of whole positions, for every scaling.

#include <gtest/gtest.h>

#include <cmath>
#include <numbers>

#include "frequencies/expect.h"
#include "rope/every_recipe.h"

namespace rotary {
namespace {

Recipe recipe(const Scaling& scaling, Wavelengths wavelengths, double theta = 1e4) {
  return {.rotary_dim = 64, .theta = theta, .scaling = scaling, .wavelengths = wavelengths};
}

/// 2 pi / round(2 pi / f).
Real resonant(const Real& f) { return 2 * Real::pi() / floor(2 * Real::pi() / f + Real(0.5)); }

TEST(Resonance, RoundsEachWavelength) {
  for (const double theta : {100.0, 1e4, 5e5}) {
    EXPECT_TRUE(
        ladder_is(make_frequencies(recipe(Plain{}, Wavelengths::kWhole, theta)), 32,
                  [&](std::int64_t i) { return resonant(base_frequency(Real(theta), 64, i)); }))
        << theta;
  }
  // The fastest pair has 2 pi = 6.28 positions, hence 6.
  EXPECT_DOUBLE_EQ(make_frequencies(recipe(Plain{}, Wavelengths::kWhole))(0), std::numbers::pi / 3);
}

TEST(Resonance, RoundsTheScaledWavelengths) {
  for (const Scaling& scaling : every_scaling(32)) {
    const Frequencies exact = make_frequencies(recipe(scaling, Wavelengths::kExact), 4096);
    const Frequencies whole = make_frequencies(recipe(scaling, Wavelengths::kWhole), 4096);
    EXPECT_EQ(whole.scale, exact.scale) << name_of(scaling);
    EXPECT_EQ(whole.growth, exact.growth) << name_of(scaling);
    for (std::int64_t i = 0; i < exact.pairs; ++i) {
      if (exact(i) == 0.0) {
        EXPECT_EQ(whole(i), 0.0) << name_of(scaling);
        continue;
      }
      const double wavelength = 2.0 * std::numbers::pi / whole(i);
      EXPECT_NEAR(wavelength, std::round(wavelength), 1e-14 * wavelength) << name_of(scaling);
      EXPECT_NEAR(wavelength, 2.0 * std::numbers::pi / exact(i), 0.5 + 1e-14 * wavelength)
          << name_of(scaling);
    }
  }
}

TEST(Resonance, KeepsDirection) {
  Recipe backward = recipe(Plain{}, Wavelengths::kWhole);
  backward.direction = RotationDirection::kBackward;
  const Frequencies forward = make_frequencies(recipe(Plain{}, Wavelengths::kWhole));
  for (std::int64_t i = 0; i < 32; ++i) EXPECT_EQ(make_frequencies(backward)(i), -forward(i));
}

TEST(Resonance, NoWavelengthIsBelowOnePosition) {
  Recipe fast = recipe(Plain{}, Wavelengths::kWhole);
  fast.gain = 1e3;
  EXPECT_DOUBLE_EQ(make_frequencies(fast)(0), 2.0 * std::numbers::pi);
}

TEST(Resonance, RejectsMixedAxes) {
  EXPECT_THROW(make_frequencies({.rotary_dim = 2,
                                 .axes = Mixed{.axes = 1, .frequencies = {0.5}},
                                 .wavelengths = Wavelengths::kWhole}),
               std::invalid_argument);
}

}  // namespace
}  // namespace rotary
