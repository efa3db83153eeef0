// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// Frequencies in the forms from which engines compute angles.
#pragma once

#include <cstdint>
#include <vector>

#include "engine/phase.h"
#include "rotary/frequencies.h"
#include "rotary/rope.h"

namespace rotary::internal {

/// At least the lanes of the widest SIMD vector.
inline constexpr std::int64_t kPadding = 64;

/// Immutable, shared by all calls. Arrays are [axes x pairs], contiguous in the pairs of an axis.
struct PhaseTable {
  Precision precision = Precision::kExact;
  std::int64_t pairs = 0;
  std::int64_t axes = 0;
  double scale = 1.0;
  std::vector<std::uint64_t> fractions{};  // Turns::fraction
  std::vector<std::uint64_t> wholes{};     // Turns::whole
  std::vector<std::uint64_t> sums{};       // [pairs]: fractions summed over axes
  std::vector<std::uint32_t> sums_low{};   // low and high words of `sums`, zero-padded to a
  std::vector<std::uint32_t> sums_high{};  // multiple of kPadding for loops over whole vectors
  std::vector<float> radians{};            // kReference
  std::vector<double> growth{};            // or empty
  double growth_origin = 0.0;
};

PhaseTable make_phase_table(const Frequencies& frequencies, Precision precision);

}  // namespace rotary::internal
