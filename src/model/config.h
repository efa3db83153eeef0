// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// Reads a whole config.json; of a composite one, every sub-config with a rope.
#pragma once

#include <string>
#include <string_view>

#include "json/json.h"
#include "rotary/model.h"

namespace rotary::internal {

/// `transformers`: the version whose families are read, where rows differ; empty: the newest.
Model read_config(const Json& root, const std::string& source, std::string_view transformers = {});

}  // namespace rotary::internal
