// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// Settings of the lab `tasks`, and names that its report uses, too.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "json/json.h"

namespace rotary::roformer::lab {

internal::Json tasks_defaults(bool quick);

/// The metric of a generated task: "exact_copy".
inline std::string exact_metric(std::string_view task) { return "exact_" + std::string(task); }
/// Likewise, for the share of its tokens: "tokens_copy".
inline std::string tokens_metric(std::string_view task) { return "tokens_" + std::string(task); }
/// The variant of a task of RoPER: "index/roper".
inline std::string roper_variant(std::string_view task, std::string_view encoding) {
  return std::string(task) + "/" + std::string(encoding);
}

}  // namespace rotary::roformer::lab
