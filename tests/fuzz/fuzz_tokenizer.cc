// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// libFuzzer: any bytes as a text, a vocabulary or a dictionary, by the first byte.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "roformer/text/segmenter.h"
#include "roformer/text/tokenizer.h"
#include "rotary/error.h"

namespace {

using rotary::roformer::Segmenter;
using rotary::roformer::Tokenizer;
using rotary::roformer::TokenizerKind;
using rotary::roformer::Tokens;
using rotary::roformer::Vocabulary;

void require(bool condition) {
  if (!condition) std::abort();
}

std::unique_ptr<const Tokenizer> tokenizer_of(TokenizerKind kind) {
  const auto segmenter = std::make_shared<const Segmenter>(
      Segmenter::parse("今天 9\n天气 9\n今天天气 1\nc++ 3\nab 2\n", "dictionary"));
  return make_tokenizer(
      {.kind = kind},
      Vocabulary::parse("[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\n今天\n天\n气\na\n##b\n"
                        "e\n##e\ni\n!\n<0x0A>\n",
                        "vocabulary"),
      segmenter);
}

void check(const Tokenizer& tokenizer, std::string_view text) {
  const Tokens tokens = tokenizer.tokenize(text);
  require(tokens.spans.size() == tokens.size() && tokens.words.size() == tokens.size());
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    require(tokens.ids[i] >= 0 && tokens.ids[i] < tokenizer.vocabulary().size());
    require(tokens.spans[i].begin < tokens.spans[i].end && tokens.spans[i].end <= text.size());
    require(i == 0 || tokens.words[i] >= tokens.words[i - 1]);
  }
  static_cast<void>(tokenizer.decode(tokens.ids));
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const std::string_view text(reinterpret_cast<const char*>(data) + 1, size - 1);
  try {
    switch (data[0] % 3) {
      case 0: {
        static const auto kRoFormer = tokenizer_of(TokenizerKind::kRoFormer);
        static const auto kBert = tokenizer_of(TokenizerKind::kBert);
        static const auto kCharacter = tokenizer_of(TokenizerKind::kCharacter);
        check(*kRoFormer, text);
        check(*kBert, text);
        check(*kCharacter, text);
        break;
      }
      case 1: {
        Vocabulary vocabulary = Vocabulary::parse(text, "vocabulary");
        check(*make_tokenizer({.kind = TokenizerKind::kBert}, std::move(vocabulary)), text);
        break;
      }
      default:
        require(!Segmenter::parse(text, "dictionary").words(text).empty());
    }
  } catch (const rotary::IoError&) {
  }
  return 0;
}
