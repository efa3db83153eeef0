// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// What two dialects make of one model, as JSON and as text: `rotary diff --dialect` and Python.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "explain/dialect.h"
#include "explain/rope_json.h"
#include "explain/terminal.h"
#include "rotary/dialect.h"

namespace rotary::explain {

/// Two dialects of one model, rope by rope.
struct DialectPair {
  Dialect a{};
  Dialect b{};
  std::vector<DialectDifference> ropes{};

  bool is_same() const;
};

/// `rope`: the rope of that name; empty: all. `context`: see compare_dialects(). Throws
/// std::invalid_argument that lists the names where there is no rope of that name.
DialectPair compare_models(const DialectModel& a, const DialectModel& b, std::string_view rope,
                           std::int64_t context);

Json pair_json(const DialectPair& pair);

/// The report for people; `title` names the model.
std::string pair_text(const DialectPair& pair, std::string_view title, const Terminal& terminal);

/// A table of several dialects, each against the same one.
std::string pairs_text(const std::vector<DialectPair>& pairs, std::string_view title,
                       const Terminal& terminal);

}  // namespace rotary::explain
