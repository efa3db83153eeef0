// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// WordPiece: a word as the longest beginning that the vocabulary has, then the longest "##" piece
// that continues it, and so on; the unknown token if that does not reach the end.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "roformer/text/trie.h"
#include "roformer/text/vocabulary.h"

namespace rotary::roformer {

/// A piece of a word: its token, and how many characters it covers.
struct Piece {
  std::int32_t id;
  std::uint32_t size;
};

class WordPiece {
 public:
  /// Throws IoError, in the name of the vocabulary, if it has no [UNK].
  explicit WordPiece(const Vocabulary& vocabulary);

  /// The number of the whole word, or kNoToken.
  std::int32_t whole(std::u32string_view word) const noexcept;
  /// Replaces `pieces`. The word is not empty; one of more than 100 characters is unknown, as in
  /// BERT.
  void split(std::u32string_view word, std::vector<Piece>& pieces) const;

 private:
  /// Tokens by the path that spells them.
  struct Spelling {
    Trie trie;
    std::vector<std::int32_t> id;

    void add(std::u32string_view token, std::int32_t number);
    /// The longest token that `text` begins with; size 0 if there is none.
    Piece longest(std::u32string_view text) const noexcept;
  };

  Spelling first_;
  Spelling next_;
  std::int32_t unknown_;
};

}  // namespace rotary::roformer
