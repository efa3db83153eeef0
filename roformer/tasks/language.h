// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

/// Loss and accuracy of a language model by context length.
///
///   namespace rf = rotary::roformer;
///   const auto texts = rf::take_texts(*documents, vocabulary, {.tokens = 2046});
///   for (const std::int64_t length : {128, 512, 2048}) {
///     rf::LanguageScore score = rf::score_language(*model, vocabulary, texts, {.length = length});
///   }
///
/// Every length predicts the same tokens: the texts fill the longest row, shorter rows are parts of
/// them, and the masks depend on the text alone. Only the context of a token differs.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "roformer/data/batch_stream.h"
#include "roformer/data/masking.h"
#include "roformer/model/model.h"

namespace rotary::roformer {

/// Which documents are used.
enum class TextChoice : std::uint8_t {
  kLong,    // those that are long enough for a text
  kJoined,  // all, concatenated with [SEP] between them
};

struct TakeOptions {
  /// Of each text.
  std::size_t tokens = 510;
  /// Maximum of all texts together; there is always one text.
  std::size_t max_total = 200000;
  TextChoice choice = TextChoice::kLong;
};

/// Texts of exactly that many tokens, in the order of the documents; the rest of a document is not
/// used. May be empty.
std::vector<TokenDocument> take_texts(DocumentStream& documents, const Vocabulary& vocabulary,
                                      const TakeOptions& options);

struct LanguageOptions {
  /// Of a row, with its framing tokens.
  std::int64_t length = 512;
  Framing framing = Framing::kClsSep;
  Masking masking{};
  std::uint64_t seed = 0;
  /// Tokens per batch.
  std::int64_t batch_tokens = 8192;
};

struct LanguageScore {
  std::int64_t length = 0;
  /// Tokens that were predicted.
  std::int64_t tokens = 0;
  /// Cross entropy in nats per token.
  double loss = 0.0;
  /// Share of the tokens that have the highest logit.
  double accuracy = 0.0;

  double perplexity() const noexcept;
};

/// For a masked or causal LM, on the device of its parameters. A causal model predicts every token
/// of the texts (without framing: except the first of a row). Throws std::invalid_argument for
/// another model, or a length too short for any token.
LanguageScore score_language(ModelImpl& model, const Vocabulary& vocabulary,
                             std::span<const TokenDocument> texts, const LanguageOptions& options);

}  // namespace rotary::roformer
