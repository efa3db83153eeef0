// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// Shared by the readers of examples: indices of classes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

namespace rotary::roformer {

/// Indices of class names. The final order is known at the end: numeric names by value, then others
/// by their bytes; or the order of the given names, and then no other names are allowed.
class ClassIndex {
 public:
  ClassIndex(std::string source, std::span<const std::string> given);

  /// A provisional index. Throws IoError for a name that is not among the given ones.
  std::int64_t index_of(const std::string& name, std::size_t line);
  /// The names in their final order. indices[i] is the final index of provisional index i.
  std::vector<std::string> finalize(std::vector<std::int64_t>& indices) const;

 private:
  std::string source_;
  bool given_;
  std::vector<std::string> names_;
  std::unordered_map<std::string, std::int64_t> indices_;
};

}  // namespace rotary::roformer
