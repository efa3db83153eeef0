// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// What the readers of examples share: objects a line, and the numbers of classes.
#pragma once

#include <cstdint>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "roformer/text/lines.h"
#include "rotary/io.h"

namespace rotary::roformer {

/// Calls visit(object, line number) for each line that is not empty. Throws IoError.
template <typename Visit>
void for_each_object(const std::filesystem::path& path, const Visit& visit) {
  const MappedFile file(path);
  for_each_line(file.bytes(), [&](std::string_view line, std::size_t number) {
    if (line.empty()) return;
    const auto object = nlohmann::json::parse(line, nullptr, false);
    if (!object.is_object()) fail_at_line(path.string(), number, "expected a JSON object");
    visit(object, number);
  });
}

/// Throws IoError where there is no text.
std::string text_of(const nlohmann::json& object, const std::string& field,
                    const std::string& source, std::size_t number);

/// Classes by their names. Their order is known at the end only: numbers by value, then other names
/// by their bytes; or that of the names that were given, which then are the only ones.
class ClassNumbers {
 public:
  ClassNumbers(std::string source, std::span<const std::string> given);

  /// For now. Throws IoError for a name that is not among the given ones.
  std::int64_t number_of(const std::string& name, std::size_t line);
  /// The names in their order. `numbers`: of the class that had number i so far.
  std::vector<std::string> settle(std::vector<std::int64_t>& numbers) const;

 private:
  std::string source_;
  bool given_;
  std::vector<std::string> names_;
  std::unordered_map<std::string, std::int64_t> numbers_;
};

}  // namespace rotary::roformer
