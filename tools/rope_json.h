// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// Recipes and ropes as JSON: what --json prints, and what `diff` compares.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>

#include "rotary/frequencies.h"
#include "rotary/model.h"

namespace rotary::cli {

using Json = nlohmann::ordered_json;

/// {"type": .., its parameters, "theta": .., "ladder_dim": .., "turn": .., "gain": ..}
Json recipe_json(const Recipe& recipe);

/// {"type": "one_axis|axial|mrope|mixed", its parameters}
Json axis_map_json(const AxisMap& map);

/// One element of "ropes"; `context_in_use` 0 is null: the trained length.
Json rope_json(const ModelRope& rope, const Frequencies& frequencies, std::int64_t context_in_use);

/// Indented, but lists on one line. Numbers round-trip; bytes that are not UTF-8 are replaced.
std::string to_text(const Json& json);

}  // namespace rotary::cli
