// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// Wavelengths of the pairs: positions for one full turn.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "rotary/frequencies.h"
#include "rotary/model.h"

namespace rotary::explain {

struct PairWavelength {
  /// 2 pi / |f|; with several axes |f| is the norm over the axes. Infinite where f is zero.
  double wavelength = 0.0;
  /// The wavelength without the recipe's scaling.
  double unscaled = 0.0;
  /// The axis whose position rotates the pair; -1 for several axes or none.
  std::int64_t axis = -1;

  /// False if the wavelength exceeds any context by far (1e18 positions).
  bool rotates() const noexcept;
};

std::vector<PairWavelength> pair_wavelengths(const ModelRope& rope, const Frequencies& frequencies);

/// Sentences on the shortest and the longest wavelength, the pairs that do not rotate, and the
/// pairs that do not complete a turn within the trained context (0: unknown).
std::vector<std::string> explain_wavelengths(const std::vector<PairWavelength>& pairs,
                                             std::int64_t trained_context);

}  // namespace rotary::explain
