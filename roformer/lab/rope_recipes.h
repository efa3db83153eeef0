// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

/// The setting `recipes` of the lab `extend`: rope parameters with places for the factor.
///
///   {"name": "yarn", "rope": {"rope_type": "yarn", "factor": "factor"}}
///
/// A text in the place of a number is "factor", or "1 - 1/factor"; "divisors" is the list that a
/// search has found, and "ones" a list of 1 for each pair. Without `rope` the model is unchanged.
#pragma once

#include <cstdint>
#include <vector>

#include "json/json.h"
#include "roformer/model/rope_config.h"

namespace rotary::roformer::lab {

/// Every recipe that stretches a context.
internal::Json default_rope_recipes();

struct Stretch {
  double factor = 2.0;
  std::int64_t pairs = 32;
  /// Empty: the factor for every pair.
  std::vector<double> divisors{};
};
/// The change for a recipe of the settings, its places filled. Recipes that depend on the context
/// in use follow the length of each text. Throws std::invalid_argument for another text in a place.
RopeChange make_rope_change(const internal::Json& recipe, const Stretch& stretch);

/// Whether a recipe has a place for "divisors".
bool needs_divisors(const internal::Json& recipe);
/// Divisors of the search for LongRoPE, which never fall from pair to pair: the first pairs keep
/// their frequency, the last is divided by the factor, and a power of a line leads from one to the
/// other.
std::vector<std::vector<double>> candidate_divisors(std::int64_t pairs, double factor);

}  // namespace rotary::roformer::lab
