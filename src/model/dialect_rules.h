// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// One row of dialects.inc applied to one rope.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "json/json.h"
#include "rotary/dialect.h"

namespace rotary::internal {

/// A string, or a list of strings, of a row; empty if absent.
std::string row_word(const Json* object, std::string_view key);
std::vector<std::string> row_words(const Json* object, std::string_view key);

/// The object of a rope's part, "text.default" being in "text_config", and its rope dictionary.
struct RopeFile {
  const Json* config = nullptr;
  const Json* dict = nullptr;  // null if the file has none

  /// False if the value is null.
  bool has(std::string_view key) const;
  /// None unless it is a number.
  std::optional<double> number(std::string_view key) const;
  /// max_position_embeddings; 0 if the file has none.
  std::int64_t max_length() const;
};

/// The part of a config that a rope of that name belongs to.
RopeFile file_of(const Json& root, const std::string& name);

/// The rope in the dialect of the row.
DialectRope apply_dialect(const Json& row, const RopeFile& file, const std::string& model_type,
                          const ModelRope& rope);

}  // namespace rotary::internal
