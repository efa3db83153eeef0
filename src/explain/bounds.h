// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// Which contexts a base serves, as `rotary bounds` reports it.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "explain/rope_json.h"
#include "rotary/analysis.h"
#include "rotary/frequencies.h"
#include "rotary/model.h"

namespace rotary::explain {

struct Bounds {
  ModelRope rope{};
  std::int64_t context = 0;
  std::int64_t trained = 0;
  std::int64_t critical_dim = 0;
  std::vector<double> turns{};
  // Of ropes with one axis and no growth:
  std::optional<CosineMinimum> minimum{};
  std::optional<std::int64_t> negative{};
  std::optional<BaseBound> smallest{};
};

/// Whether to search for the smallest base, which takes a second for long contexts.
enum class SmallestBase { kNo, kYes };

/// `frequencies`: those of `rope`. M-RoPE is taken as text has it, with one axis. `context`: 1 to
/// 2^24, or std::invalid_argument.
Bounds compute_bounds(const ModelRope& rope, const Frequencies& frequencies, std::int64_t context,
                      SmallestBase search);

Json bounds_json(const Bounds& bounds);

}  // namespace rotary::explain
