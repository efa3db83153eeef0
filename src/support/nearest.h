// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// Spelling suggestions: the known word nearest to an unknown one.
#pragma once

#include <algorithm>
#include <cstddef>
#include <string_view>
#include <vector>

namespace rotary::internal {

/// Levenshtein distance.
inline std::size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> row(b.size() + 1);
  for (std::size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (std::size_t i = 1; i <= a.size(); ++i) {
    std::size_t diagonal = row[0];
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t replaced = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
      diagonal = row[j];
      row[j] = std::min({replaced, row[j] + 1, row[j - 1] + 1});
    }
  }
  return row[b.size()];
}

/// True if the letters of `word` appear in `other` in that order: attn_factor, attention_factor.
inline bool abbreviates(std::string_view word, std::string_view other) {
  std::size_t at = 0;
  for (const char letter : other) {
    if (at < word.size() && word[at] == letter) ++at;
  }
  return at == word.size();
}

/// The nearest of `words`, or empty if none is within a third of the word's length (at least 2
/// edits). An abbreviation counts as two edits. Ties go to the first. Words longer than 64 bytes
/// have no suggestion.
template <typename Words>
std::string_view nearest(std::string_view word, const Words& words) {
  if (word.size() > 64) return {};
  std::string_view best;
  std::size_t least = std::max<std::size_t>(2, word.size() / 3) + 1;
  for (const std::string_view candidate : words) {
    std::size_t distance = edit_distance(word, candidate);
    if (word.size() > 3 && abbreviates(word, candidate)) {
      distance = std::min<std::size_t>(distance, 2);
    }
    if (distance < least) {
      least = distance;
      best = candidate;
    }
  }
  return best;
}

}  // namespace rotary::internal
