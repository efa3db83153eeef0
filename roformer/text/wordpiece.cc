// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

#include "roformer/text/wordpiece.h"

#include <string>

#include "roformer/text/unicode.h"
#include "rotary/error.h"

namespace rotary::roformer {

void WordPiece::TokenTrie::add(std::u32string_view token, std::int32_t token_id) {
  const std::uint32_t node = trie.insert(token);
  id.resize(trie.num_nodes(), kNoToken);
  id[node] = token_id;
}

Piece WordPiece::TokenTrie::longest(std::u32string_view text) const noexcept {
  Piece best{kNoToken, 0};
  std::uint32_t node = Trie::kRoot;
  for (std::uint32_t i = 0; i < text.size(); ++i) {
    node = trie.child(node, text[i]);
    if (node == Trie::kNone) break;
    if (id[node] != kNoToken) best = {id[node], i + 1};
  }
  return best;
}

WordPiece::WordPiece(const Vocabulary& vocabulary) : unknown_(vocabulary.special().unknown) {
  if (unknown_ == kNoToken) {
    throw IoError(vocabulary.source(), IoError::kNoOffset, "the vocabulary has no [UNK]");
  }
  first_.id.push_back(kNoToken);
  next_.id.push_back(kNoToken);
  for (std::int32_t id = 0; id < vocabulary.size(); ++id) {
    const std::string& token = vocabulary.token(id);
    first_.add(to_code_points(token), id);
    if (token.size() > 2 && token.starts_with("##")) {
      next_.add(to_code_points(std::string_view(token).substr(2)), id);
    }
  }
}

std::int32_t WordPiece::whole(std::u32string_view word) const noexcept {
  const std::uint32_t node = first_.trie.find(word);
  return node != Trie::kNone ? first_.id[node] : kNoToken;
}

void WordPiece::split(std::u32string_view word, std::vector<Piece>& pieces) const {
  constexpr std::size_t kMaxWordLength = 100;
  pieces.clear();
  const auto size = static_cast<std::uint32_t>(word.size());
  if (word.size() > kMaxWordLength) return pieces.push_back({unknown_, size});
  for (std::u32string_view rest = word; !rest.empty();) {
    const Piece piece = (pieces.empty() ? first_ : next_).longest(rest);
    if (piece.size == 0) {
      pieces.assign(1, {unknown_, size});
      return;
    }
    pieces.push_back(piece);
    rest.remove_prefix(piece.size);
  }
}

}  // namespace rotary::roformer
