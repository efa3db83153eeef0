// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// JSON as Python writes it.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

namespace rotary::internal {

using Json = nlohmann::json;

/// Parses the text of a config.json. Python's NaN, Infinity and -Infinity are read as null. Throws
/// IoError with the byte offset for what is not JSON, and for nesting deeper than any config has.
Json parse_json(std::string_view text, const std::string& source);

}  // namespace rotary::internal
