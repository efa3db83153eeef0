// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// How far each pair must travel for one full turn.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "rotary/frequencies.h"
#include "rotary/model.h"

namespace rotary::cli {

/// One pair of the chart.
struct PairWave {
  /// 2 pi / |f|, in positions along the direction in which the pair turns fastest; infinite where
  /// f is zero.
  double length = 0.0;
  /// The same without the recipe's scaling.
  double unscaled = 0.0;
  /// The axis that drives the pair; -1 where several do or none.
  std::int64_t axis = -1;

  bool stands_still() const noexcept;
};

std::vector<PairWave> pair_waves(const ModelRope& rope, const Frequencies& frequencies);

/// Sentences for a reader: the fastest and the slowest pair, the pairs that stand still, and those
/// that never complete a turn within the trained context.
std::vector<std::string> explain_waves(const std::vector<PairWave>& waves,
                                       std::int64_t trained_context);

}  // namespace rotary::cli
