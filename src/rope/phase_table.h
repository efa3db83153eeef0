// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// Frequencies in the forms in which engines make angles from them.
#pragma once

#include <cstdint>
#include <vector>

#include "rope/phase.h"
#include "rotary/frequencies.h"
#include "rotary/rope.h"

namespace rotary::internal {

/// Lanes of the widest vector, and more.
inline constexpr std::int64_t kPadding = 64;

/// Position axes that an engine has room for.
inline constexpr std::int64_t kMostAxes = 16;

/// Immutable, shared by all calls. Arrays are [axes x pairs]: a loop over the pairs of one axis
/// runs through memory.
struct PhaseTable {
  Precision precision = Precision::kExact;
  std::int64_t pairs = 0;
  std::int64_t axes = 0;
  double scale = 1.0;
  std::vector<std::uint64_t> fractions{};  // Turns::fraction
  std::vector<std::uint64_t> wholes{};     // Turns::whole
  std::vector<std::uint64_t> sums{};       // [pairs]: fractions of all axes together
  std::vector<std::uint32_t> sums_low{};   // the same in two halves, with zeros up to the next
  std::vector<std::uint32_t> sums_high{};  // multiple of kPadding, for loops over whole vectors
  std::vector<float> radians{};            // kReference
  std::vector<double> growth{};            // or empty
  double growth_origin = 0.0;
};

PhaseTable make_phase_table(const Frequencies& frequencies, Precision precision);

}  // namespace rotary::internal
