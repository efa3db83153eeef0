// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// Keys at the top of a config: which speak of a rotation, and what is odd about them.
#pragma once

#include <string>
#include <vector>

#include "model/lookup.h"

namespace rotary::internal {

/// True if the object says anything about a rotation.
bool mentions_rope(const Json& config);

/// Adds a line for each key that seems to speak of a rotation and is not read, with the nearest key
/// that is; for two dictionaries that differ; and for settings that act beside the rotation.
void add_config_warnings(const Lookup& lookup, std::vector<std::string>& warnings);

}  // namespace rotary::internal
