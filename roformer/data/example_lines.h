// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// Shared by the readers of examples: JSON lines, and fields of tables.
#pragma once

#include <cstddef>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "json/json.h"
#include "roformer/text/lines.h"
#include "rotary/io.h"

namespace rotary::roformer {

/// Calls visit(object, line number) for every non-empty line. Throws IoError.
template <typename Visit>
void for_each_object(const std::filesystem::path& path, const Visit& visit) {
  const MappedFile file(path);
  for_each_line(file.bytes(), [&](std::string_view line, std::size_t number) {
    if (line.empty()) return;
    const internal::Json object = internal::try_parse_json(line);
    if (!object.is_object()) fail_at_line(path.string(), number, "expected a JSON object");
    visit(object, number);
  });
}

/// The fields of a line of a table; views of it.
std::vector<std::string_view> split_tabs(std::string_view line);

/// The string of a field. Throws IoError if it is missing.
std::string text_of(const internal::Json& object, const std::string& field,
                    const std::string& source, std::size_t number);

}  // namespace rotary::roformer
