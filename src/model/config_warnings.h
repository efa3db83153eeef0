// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// Top-level keys of a config: whether they describe a rope, and warnings about them.
#pragma once

#include <string>
#include <vector>

#include "model/lookup.h"

namespace rotary::internal {

/// True if the object has a key that describes a rope.
bool mentions_rope(const Json& config);

/// Adds a warning for each unread key that looks like a rope key, with the nearest known key; for
/// two rope dictionaries that differ; and for settings outside the rotation that affect attention.
void add_config_warnings(const Lookup& lookup, std::vector<std::string>& warnings);

}  // namespace rotary::internal
