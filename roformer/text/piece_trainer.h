// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// WordPiece's training.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace rotary::roformer {

/// Appends pieces to `tokens` until it holds `size`: first the characters of the words, then, one
/// after the other, the pair of neighbouring pieces that is seen most often (of equal ones the pair
/// that stands first among the pieces), joined. Nothing seen less than min_count times is taken.
/// `words` are different from each other; their order decides nothing but the order of characters
/// that are equally frequent.
void train_pieces(const std::vector<std::pair<std::string, std::uint64_t>>& words,
                  std::uint64_t min_count, std::size_t size, std::vector<std::string>& tokens);

}  // namespace rotary::roformer
