// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// Recipes and axis maps from and to JSON values; rotary/recipe_json.h describes the form.
#pragma once

#include <string>

#include "json/json.h"
#include "rotary/recipe.h"

namespace rotary::internal {

/// {"type": .., its members, "theta": .., "ladder_dim": .., "direction": .., "gain": ..,
///  "wavelengths": ..}
Json recipe_json(const Recipe& recipe);

/// {"type": "one_axis|axial|mrope|mixed", its members}
Json axis_map_json(const AxisMap& map);

/// Both throw std::invalid_argument that names the source and the key.
Recipe recipe_of_json(const Json& json, const std::string& source);
AxisMap axis_map_of_json(const Json& json, const std::string& source);

/// The enumerator of a word: RotationDirection, Wavelengths, SoftmaxCorrection or WalkthroughRamp.
template <typename Enum>
Enum word_of_json(const Json& word, const char* key, const std::string& source);

}  // namespace rotary::internal
