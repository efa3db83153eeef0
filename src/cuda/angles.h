// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// From positions and frequencies as a job has them to those that a launch is told.
#pragma once

#include <cstdint>

#include "cuda/params.h"
#include "cuda/part.h"
#include "rope/kernel.h"

namespace rotary::internal::cuda {

void fill_positions(const Positions& from, const Rows& rows, PositionParams& to) noexcept;

/// Axes, direction and the size of z; not for tables.
void fill_size(const Source& source, Direction direction, RotateParams& p) noexcept;

/// Whether SimpleParams will do: exact angles at whole-number positions, nothing that grows, no
/// pair that turns with several axes.
bool is_simple(const Source& source, const Positions& positions) noexcept;

/// Frequencies as SimpleParams has them.
void fill_fractions(const Source& source, const Positions& positions, PairRange pairs,
                    SimpleParams& p) noexcept;

/// Pairs that AnyParams has words for, with `more_planes` beside those that angles need.
std::int64_t most_pairs(const Source& source, const Positions& positions,
                        std::int64_t more_planes = 0) noexcept;

/// Frequencies as AnyParams has them. Returns how many words are used.
std::int32_t fill_words(const Source& source, const Positions& positions, PairRange pairs,
                        AnyParams& p) noexcept;

}  // namespace rotary::internal::cuda
