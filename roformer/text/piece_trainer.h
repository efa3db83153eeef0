// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// Training of WordPiece vocabularies.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace rotary::roformer {

/// Appends pieces to `tokens` until it has `size`: first the characters of the words, then
/// repeatedly the most frequent pair of adjacent pieces, merged (of equally frequent pairs the one
/// with the lowest ids). Nothing that occurs less than min_count times is added. `words` are
/// distinct; the result does not depend on their order, except for equally frequent characters.
void train_pieces(const std::vector<std::pair<std::string, std::uint64_t>>& words,
                  std::uint64_t min_count, std::size_t size, std::vector<std::string>& tokens);

}  // namespace rotary::roformer
