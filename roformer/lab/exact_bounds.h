// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

/// The setting `exact` of the lab `base`: recipes and model files whose bounds are computed.
///
///   {"models": ["Qwen2.5-7B/config.json"],
///    "recipes": [{"name": "ntk 4", "recipe": {"type": "ntk", "factor": 4, "rotary_dim": 128},
///                 "contexts": [4096, 16384]}]}
///
/// A recipe has the keys of rotary/recipe_json.h. A model is judged at the contexts of its file,
/// trained and extended; it and a recipe without contexts, else, at those of `exact_contexts`.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "roformer/lab/lab.h"
#include "rotary/frequencies.h"
#include "rotary/recipe.h"

namespace rotary::roformer::lab {

/// A rotation with bounds.
struct ExactRotation {
  /// "exact ntk 4", "exact Qwen2.5-7B/config.json", "exact gemma/config.json sliding_attention"
  std::string variant{};
  Recipe recipe{};
  std::vector<std::int64_t> contexts{};
};
/// Of the setting; files are looked for in --data, too. Throws std::invalid_argument, IoError.
std::vector<ExactRotation> exact_rotations(const internal::Json& exact,
                                           const std::vector<std::int64_t>& contexts,
                                           const LabOptions& options);

/// For each context: "critical_dim", "negative_distance", "smallest_base", which does not use
/// theta, and "decay" by distance; and "theta" itself. What a bound is not defined for has a row
/// with the reason.
std::vector<Row> exact_rows(const ExactRotation& rotation, const UnitRun& run);

/// RoFormer's bound on scores by distance (decay() of rotary/analysis.h): rows "decay" at the
/// powers of two below `longest` and at `longest`, with the coordinate "distance" in addition to
/// `at`.
void add_decay(const Frequencies& frequencies, std::int64_t longest, const Coordinates& at,
               const UnitRun& run, std::vector<Row>& rows);

}  // namespace rotary::roformer::lab
