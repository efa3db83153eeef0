// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// Reads a whole config.json; of a composite one, every sub-config with a rope.
#pragma once

#include <string>

#include "json/json.h"
#include "rotary/model.h"

namespace rotary::internal {

Model read_config(const Json& root, const std::string& source);

}  // namespace rotary::internal
