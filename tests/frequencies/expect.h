// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// Comparison of frequencies with formulas in 256 bits. The formulas are written from the papers and
// public implementations, not from src.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "reference/real.h"
#include "rotary/frequencies.h"

namespace rotary {

using reference::Real;

/// make_frequencies computes in long double and rounds once: 1.2e-16. The rest allows for a long
/// double that is a double.
inline constexpr double kRelative = 1e-15;

inline ::testing::AssertionResult near(double got, const Real& expected,
                                       double relative = kRelative) {
  if (abs(Real(got) - expected) <= abs(expected) * relative) return ::testing::AssertionSuccess();
  return ::testing::AssertionFailure()
         << "got " << got << ", expected " << expected << ", relative difference "
         << static_cast<double>(abs(Real(got) - expected) / abs(expected));
}

/// theta^(-2i/d).
inline Real base_frequency(const Real& theta, std::int64_t d, std::int64_t i) {
  return pow(theta, Real(-2 * i) / Real(d));
}

/// Rotations that a frequency makes in `length` positions.
inline Real rotations(const Real& f, std::int64_t length) {
  return Real(length) * f / (2 * Real::pi());
}

/// Expects one axis and `pairs` frequencies by the formula.
inline ::testing::AssertionResult ladder_is(const Frequencies& f, std::int64_t pairs,
                                            const std::function<Real(std::int64_t)>& formula) {
  if (f.pairs != pairs || f.axes != 1 || f.values.size() != static_cast<std::size_t>(pairs)) {
    return ::testing::AssertionFailure() << "got " << f.pairs << " pairs x " << f.axes << " axes, "
                                         << f.values.size() << " values";
  }
  for (std::int64_t i = 0; i < pairs; ++i) {
    if (auto result = near(f(i), formula(i)); !result) return result << ", pair " << i;
  }
  return ::testing::AssertionSuccess();
}

/// The axis of each pair as a letter; '.' for none and '*' for several.
inline std::string drawing(const Frequencies& f, std::string_view letters = "thw") {
  std::string text;
  for (std::int64_t pair = 0; pair < f.pairs; ++pair) {
    char letter = '.';
    for (std::int64_t a = 0; a < f.axes; ++a) {
      if (f(pair, a) != 0.0) letter = letter == '.' ? letters[static_cast<std::size_t>(a)] : '*';
    }
    text += letter;
  }
  return text;
}

}  // namespace rotary
