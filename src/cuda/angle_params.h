// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// Positions and frequencies of a rotation as kernel parameters.
#pragma once

#include <cstdint>

#include "cuda/launch_split.h"
#include "cuda/params.h"
#include "engine/kernel.h"

namespace rotary::internal::cuda {

void fill_positions(const Positions& from, const TokenRange& range, PositionParams& to) noexcept;

/// Axes, direction and magnitude |z|; not for tables.
void fill_magnitude(const AngleSource& source, Direction direction, KernelParams& p) noexcept;

/// Whether SimpleParams suffice: exact angles at integer positions, no growth, no pair with
/// frequencies on several axes.
bool is_simple(const AngleSource& source, const Positions& positions) noexcept;

/// Frequencies of SimpleParams.
void fill_fractions(const AngleSource& source, const Positions& positions, PairRange pairs,
                    SimpleParams& p) noexcept;

/// Pairs that fit into GeneralParams, with `more_planes` planes beside those of the angles.
std::int64_t max_pairs(const AngleSource& source, const Positions& positions,
                       std::int64_t more_planes = 0) noexcept;

/// Frequencies of GeneralParams. Returns the number of words used.
std::int32_t fill_words(const AngleSource& source, const Positions& positions, PairRange pairs,
                        GeneralParams& p) noexcept;

/// The caller's table, of TableParams.
void fill_table(const RotateParams& params, const TokenRange& range, TableParams& p) noexcept;

}  // namespace rotary::internal::cuda
