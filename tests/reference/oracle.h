// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// cos and sin of position * frequency, correctly rounded for any position. Products of two
// doubles or of a double and an int64 are exact in 256 bits, and MPFR reduces modulo 2 pi with as
// many digits of pi as that takes.
#pragma once

#include <cstddef>
#include <span>

#include "reference/real.h"

namespace rotary::reference {

struct CosSin {
  long double cos;
  long double sin;
};

/// Of the angle sum_a frequency[a] * position[a], `frequency` being exactly the doubles given.
template <typename Position>
CosSin cos_sin_at(std::span<const double> frequency, std::span<const Position> position) {
  Real angle;
  for (std::size_t a = 0; a < frequency.size(); ++a) {
    angle = angle + Real(frequency[a]) * Real(position[a]);
  }
  return {static_cast<long double>(cos(angle)), static_cast<long double>(sin(angle))};
}

template <typename Position>
CosSin cos_sin_at(double frequency, Position position) {
  return cos_sin_at(std::span<const double>(&frequency, 1),
                    std::span<const Position>(&position, 1));
}

}  // namespace rotary::reference
