// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// The properties of a rope and what they mean, as the table of `rotary inspect` lists them.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "explain/rope_json.h"
#include "rotary/frequencies.h"
#include "rotary/model.h"

namespace rotary::explain {

struct Property {
  std::string name;
  std::string value;
  /// What the value means; may be empty.
  std::string meaning;
};

/// `context_in_use`: the context length that `frequencies` were made for; 0 is the trained length.
std::vector<Property> describe(const ModelRope& rope, const Frequencies& frequencies,
                               std::int64_t context_in_use);

/// The original context of a recipe whose frequencies depend on the context in use (dynamic NTK,
/// LongRoPE): beyond it they change. 0 for other recipes.
std::int64_t context_threshold(const Recipe& recipe);

/// The text of a parameter; a long list as its length and range.
std::string value_text(const Json& value);

}  // namespace rotary::explain
