// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// WordPiece tokenisation: greedy longest match from the left. The first piece is a token, later
// ones are "##" pieces; a word that cannot be covered is the unknown token.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "roformer/text/trie.h"
#include "roformer/text/vocabulary.h"

namespace rotary::roformer {

/// A piece of a word: its token id and its number of characters.
struct Piece {
  std::int32_t id;
  std::uint32_t size;
};

class WordPiece {
 public:
  /// Throws IoError if the vocabulary has no [UNK].
  explicit WordPiece(const Vocabulary& vocabulary);

  /// The id of the whole word, or kNoToken.
  std::int32_t whole(std::u32string_view word) const noexcept;
  /// Replaces `pieces`. The word must not be empty; more than 100 characters are unknown, as in
  /// BERT.
  void split(std::u32string_view word, std::vector<Piece>& pieces) const;

 private:
  /// Token ids by trie node.
  struct TokenTrie {
    Trie trie;
    std::vector<std::int32_t> id;

    void add(std::u32string_view token, std::int32_t token_id);
    /// The longest token that is a prefix of `text`; size 0 if there is none.
    Piece longest(std::u32string_view text) const noexcept;
  };

  TokenTrie first_;
  TokenTrie next_;
  std::int32_t unknown_;
};

}  // namespace rotary::roformer
