// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

/// Recipes as JSON: every scaling and every axis map under the name that all interfaces share.
///
///   std::string text = rotary::to_json(rotary::Recipe{.rotary_dim = 128, .theta = 1e6,
///       .scaling = rotary::Yarn{.factor = 4, .original_context = 32768}});
///   rotary::Recipe again = rotary::recipe_from_json(text);   // the same frequencies, bit for bit
///
/// One object: "type" and the members of the scaling under their names in recipe.h ("factor",
/// "original_context", ...), then "rotary_dim", "theta", "ladder_dim", "direction", "gain",
/// "wavelengths", and "axis_map": {"type": "one_axis" | "axial" | "mrope" | "mixed", ...}. It is
/// what `rotary inspect --json` prints in parts, and what rotary_recipe of the C API takes.
#pragma once

#include <string>
#include <string_view>

#include "rotary/recipe.h"

namespace rotary {

/// In one line. Numbers round-trip.
std::string to_json(const Recipe& recipe);

/// Members that are absent or null have the defaults of recipe.h; "rope_type", "rope_theta" and
/// "original_max_position_embeddings" are accepted for "type", "theta" and "original_context".
/// Throws IoError for text that is not JSON, and std::invalid_argument for an unknown type, key or
/// word and a value of another type; `source` names the text in both. make_frequencies() checks
/// the rest.
Recipe recipe_from_json(std::string_view json, const std::string& source = "recipe");

}  // namespace rotary
