// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// A tokenised document: token ids and word starts.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "roformer/text/tokenizer.h"

namespace rotary::roformer {

/// Both vectors have the same length.
struct TokenDocument {
  std::vector<std::int32_t> ids;
  /// 1 at the first token of a word.
  std::vector<std::uint8_t> begins;

  void clear() noexcept {
    ids.clear();
    begins.clear();
  }
  std::size_t size() const noexcept { return ids.size(); }
};

inline void to_document(const Tokens& tokens, TokenDocument& out) {
  out.ids = tokens.ids;
  out.begins.resize(tokens.size());
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    out.begins[i] = i == 0 || tokens.words[i] != tokens.words[i - 1] ? 1 : 0;
  }
}

}  // namespace rotary::roformer
