// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

/// How well a language model guesses, by the length that it reads at once.
///
///   namespace rf = rotary::roformer;
///   const auto texts = rf::take_texts(*documents, vocabulary, {.tokens = 2046});
///   for (const std::int64_t length : {128, 512, 2048}) {
///     rf::LanguageScore score = rf::score_language(*model, vocabulary, texts, {.length = length});
///   }
///
/// Every length is asked for the same tokens: the texts fill the longest row, shorter rows are
/// parts of them, and what is masked depends on the text alone. Only how much the model sees
/// around a token differs.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "roformer/data/batch_stream.h"
#include "roformer/data/masking.h"
#include "roformer/model/model.h"

namespace rotary::roformer {

/// Which documents may serve.
enum class TextChoice : std::uint8_t {
  kLong,    // those that fill a text alone
  kJoined,  // all, laid end to end with [SEP] between them
};

struct TakeOptions {
  /// Of each text.
  std::size_t tokens = 510;
  /// Of all texts together, at most; one text at least.
  std::size_t most = 200000;
  TextChoice choice = TextChoice::kLong;
};

/// Texts of exactly that many tokens, in the order of the documents; what is left over of a
/// document is not used. May be empty.
std::vector<TokenDocument> take_texts(DocumentStream& documents, const Vocabulary& vocabulary,
                                      const TakeOptions& options);

struct LanguageOptions {
  /// Of a row, with what is put around its part of a text.
  std::int64_t length = 512;
  Framing framing = Framing::kClsSep;
  Masking masking{};
  std::uint64_t seed = 0;
  /// Tokens that the model reads at once.
  std::int64_t batch_tokens = 8192;
};

struct LanguageScore {
  std::int64_t length = 0;
  /// Tokens that had to be guessed.
  std::int64_t tokens = 0;
  /// Nats a token.
  double loss = 0.0;
  /// Share of the tokens that the model holds for the likeliest.
  double accuracy = 0.0;

  double perplexity() const noexcept;
};

/// Of a masked or causal LM, where its parameters are. A causal model is asked for every token of
/// the texts (without framing: but the first of a row). Throws std::invalid_argument for another
/// model, or a length without room for a token.
LanguageScore score_language(ModelImpl& model, const Vocabulary& vocabulary,
                             std::span<const TokenDocument> texts, const LanguageOptions& options);

}  // namespace rotary::roformer
