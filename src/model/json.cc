// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

#include "model/json.h"

#include <array>

#include "rotary/error.h"
#include "support/message.h"

namespace rotary::internal {
namespace {

/// No config is nested deeper.
constexpr int kDeepest = 64;

/// Blanks Python's non-finite numbers, outside strings, to null of the same length.
std::string without_non_finite(std::string_view text) {
  constexpr std::array<std::string_view, 3> kWords = {"-Infinity", "Infinity", "NaN"};
  std::string result(text);
  bool in_string = false;
  for (std::size_t i = 0; i < result.size(); ++i) {
    const char c = result[i];
    if (in_string) {
      if (c == '\\') ++i;
      if (c == '"') in_string = false;
      continue;
    }
    if (c == '"') in_string = true;
    if (c != '-' && c != 'I' && c != 'N') continue;
    for (const std::string_view word : kWords) {
      if (result.compare(i, word.size(), word) != 0) continue;
      std::string blank(word.size() > 4 ? word.size() : 4, ' ');
      blank.replace(0, 4, "null");
      result.replace(i, word.size(), blank);
      i += blank.size() - 1;
      break;
    }
  }
  return result;
}

}  // namespace

Json parse_json(std::string_view text, const std::string& source) {
  const auto limit_depth = [&source](int depth, Json::parse_event_t event, const Json&) {
    if (depth > kDeepest &&
        (event == Json::parse_event_t::object_start || event == Json::parse_event_t::array_start)) {
      throw IoError(source, IoError::kNoOffset, concat("nested deeper than ", kDeepest, " levels"));
    }
    return true;
  };
  try {
    return Json::parse(without_non_finite(text), limit_depth);
  } catch (const Json::parse_error& error) {
    const auto offset = static_cast<std::int64_t>(error.byte) - 1;
    throw IoError(source, offset < 0 ? 0 : offset, "not valid JSON");
  } catch (const Json::exception& error) {
    throw IoError(source, IoError::kNoOffset, concat("not valid JSON: ", error.what()));
  }
}

}  // namespace rotary::internal
