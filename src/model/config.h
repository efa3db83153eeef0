// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// Whole config.json files: composite ones are walked part by part.
#pragma once

#include <string>

#include "model/json.h"
#include "rotary/model.h"

namespace rotary::internal {

Model read_config(const Json& root, const std::string& source);

}  // namespace rotary::internal
