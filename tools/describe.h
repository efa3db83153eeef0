// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// A rope in words, for the table of `rotary inspect`.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "rotary/frequencies.h"
#include "rotary/model.h"
#include "tools/rope_json.h"

namespace rotary::cli {

struct Row {
  std::string name;
  std::string value;
  /// What the value means to somebody who has not met it before.
  std::string words;
};

/// `context_in_use`: for which `frequencies` were made; 0 is the trained length.
std::vector<Row> describe(const ModelRope& rope, const Frequencies& frequencies,
                          std::int64_t context_in_use);

/// The original context of a recipe that depends on the length in use; else 0.
std::int64_t turning_point(const Recipe& recipe);

/// A parameter as people read it; long lists by their length and range.
std::string value_text(const Json& value);

}  // namespace rotary::cli
