// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// Recipes and ropes as JSON, for --json and for `rotary diff`.
#pragma once

#include <cstdint>
#include <string>

#include "json/json.h"
#include "model/recipe_json.h"
#include "rotary/frequencies.h"
#include "rotary/model.h"

namespace rotary::explain {

using internal::Json;

using internal::axis_map_json;
using internal::recipe_json;

/// One element of "ropes", which Model::read() reads again. `context_in_use`: the context length of
/// `frequencies`; 0 (the trained length) is written as null.
Json rope_json(const ModelRope& rope, const Frequencies& frequencies, std::int64_t context_in_use);

/// Indented, with lists on one line. Numbers round-trip; invalid UTF-8 is replaced.
std::string to_text(const Json& json);

}  // namespace rotary::explain
