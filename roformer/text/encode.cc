// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// Special tokens and truncation.
#include <algorithm>
#include <stdexcept>
#include <string>
#include <utility>

#include "roformer/text/tokenizer.h"
#include "rotary/error.h"

namespace rotary::roformer {
namespace {

/// The number of tokens kept of each side, for `capacity` in total. If it is odd, the longer side
/// gets one more, as in Hugging Face's tokenizers.
std::pair<std::size_t, std::size_t> truncated_lengths(std::size_t first, std::size_t second,
                                                      std::size_t capacity, Truncation truncation) {
  const auto fail = [&](const char* side) {
    throw std::invalid_argument(std::string("[encode] the ") + side +
                                " text alone leaves no room: " + std::to_string(first) + " and " +
                                std::to_string(second) + " tokens for " + std::to_string(capacity));
  };
  if (first + second <= capacity) return {first, second};
  switch (truncation) {
    case Truncation::kFirst:
      if (second >= capacity) fail("second");
      return {capacity - second, second};
    case Truncation::kSecond:
      if (first >= capacity) fail("first");
      return {first, capacity - first};
    case Truncation::kLongestFirst:
      break;
  }
  std::size_t shorter = std::min(first, second);
  std::size_t longer = std::max(shorter, capacity - std::min(shorter, capacity));
  if (shorter + longer > capacity) {
    shorter = capacity / 2;
    longer = capacity - shorter;
  }
  return first > second ? std::pair(longer, shorter) : std::pair(shorter, longer);
}

class EncodingBuilder {
 public:
  explicit EncodingBuilder(const Vocabulary& vocabulary) : special_(vocabulary.special()) {
    if (special_.cls == kNoToken || special_.sep == kNoToken) {
      throw IoError(vocabulary.source(), IoError::kNoOffset,
                    "the vocabulary has no [CLS] or no [SEP]");
    }
    push(special_.cls, 0, {}, Encoding::kNoWord);
  }

  /// Tokens [begin, end) of a text, and [SEP].
  void add(const Tokens& tokens, std::size_t begin, std::size_t end, std::int32_t type) {
    const std::uint32_t first_word = next_word_;
    for (std::size_t i = begin; i < end; ++i) {
      next_word_ = first_word + tokens.words[i] + 1;
      push(tokens.ids[i], type, tokens.spans[i], first_word + tokens.words[i]);
    }
    push(special_.sep, type, {}, Encoding::kNoWord);
  }

  Encoding take() { return std::move(out_); }

 private:
  void push(std::int32_t id, std::int32_t type, TextSpan span, std::uint32_t word) {
    out_.ids.push_back(id);
    out_.types.push_back(type);
    out_.spans.push_back(span);
    out_.words.push_back(word);
  }

  SpecialIds special_;
  Encoding out_;
  std::uint32_t next_word_ = 0;
};

std::size_t capacity_of(const EncodeOptions& options, std::size_t num_special) {
  if (options.max_length == 0) return static_cast<std::size_t>(-1);
  if (options.max_length < num_special) {
    throw std::invalid_argument("[encode] max_length must be at least " +
                                std::to_string(num_special) + ", got " +
                                std::to_string(options.max_length));
  }
  return options.max_length - num_special;
}

}  // namespace

Encoding encode(const Tokenizer& tokenizer, std::string_view text, const EncodeOptions& options) {
  const std::size_t capacity = capacity_of(options, 2);
  EncodingBuilder builder(tokenizer.vocabulary());
  const Tokens tokens = tokenizer.tokenize(text);
  builder.add(tokens, 0, std::min(tokens.size(), capacity), 0);
  return builder.take();
}

Encoding encode_pair(const Tokenizer& tokenizer, std::string_view first, std::string_view second,
                     const EncodeOptions& options) {
  const std::size_t capacity = capacity_of(options, 3);
  EncodingBuilder builder(tokenizer.vocabulary());
  const Tokens a = tokenizer.tokenize(first);
  const Tokens b = tokenizer.tokenize(second);
  const auto [keep_a, keep_b] = truncated_lengths(a.size(), b.size(), capacity, options.truncation);
  builder.add(a, 0, keep_a, 0);
  builder.add(b, 0, keep_b, 1);
  return builder.take();
}

Encoding encode_window(const Vocabulary& vocabulary, const Tokens& first, std::size_t keep,
                       const Tokens& second, std::size_t begin, std::size_t end) {
  EncodingBuilder builder(vocabulary);
  builder.add(first, 0, keep, 0);
  builder.add(second, begin, end, 1);
  return builder.take();
}

Encoding encode_words(const Tokenizer& tokenizer, std::span<const std::string> words,
                      const EncodeOptions& options) {
  const std::size_t capacity = capacity_of(options, 2);
  EncodingBuilder builder(tokenizer.vocabulary());
  Tokens all;
  Tokens one;
  for (std::size_t i = 0; i < words.size() && all.size() < capacity; ++i) {
    tokenizer.tokenize(words[i], one);
    for (std::size_t k = 0; k < one.size(); ++k) {
      all.push_back(one.ids[k], one.spans[k], static_cast<std::uint32_t>(i));
    }
  }
  builder.add(all, 0, std::min(all.size(), capacity), 0);
  return builder.take();
}

}  // namespace rotary::roformer
