// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// rotary diff MODEL --dialect: what frameworks make of the same model.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace rotary::cli {

struct DialectDiffOptions {
  std::string model{};
  std::string rope{};
  /// One: against hf. Two: the second against the first.
  std::vector<std::string> dialects{};
  /// Every dialect against hf.
  bool all = false;
  std::int64_t context = 0;
  bool json = false;
};

/// Throws UsageError for none and for more than two dialects.
void diff_dialects(const DialectDiffOptions& options);

}  // namespace rotary::cli
