// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// The ropes of `rotary inspect --json`, read again: {"model_type": .., "ropes": [{..}, ..]}.
#pragma once

#include <string>

#include "json/json.h"
#include "rotary/model.h"

namespace rotary::internal {

/// True for an object with a list of ropes, each with a recipe.
bool is_ropes_json(const Json& root);

/// The ropes, from their recipes: the same bits that were printed. Of each rope "head_dim",
/// "pairing" and "recipe" are required; "frequencies" and other results are not read. Throws
/// std::invalid_argument.
Model read_ropes_json(const Json& root, const std::string& source);

}  // namespace rotary::internal
