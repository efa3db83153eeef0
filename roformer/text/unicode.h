// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// Code points: UTF-8 conversion and the properties that tokenizers need. Properties come from
// utf8proc; explicit ranges are those of the reference tokenizers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace rotary::roformer {

inline constexpr char32_t kReplacement = 0xFFFD;

/// A code point and its size in bytes.
struct CodePoint {
  char32_t value;
  std::uint32_t size;
};

/// The code point at text[at]; at < text.size(). A byte that does not begin a valid sequence is
/// U+FFFD of size 1.
CodePoint decode_at(std::string_view text, std::size_t at) noexcept;

void append_utf8(std::string& out, char32_t c);
std::string to_utf8(std::u32string_view text);
std::u32string to_code_points(std::string_view text);

/// Unicode's White_Space.
bool is_whitespace(char32_t c) noexcept;
/// Characters that normalisation removes: categories Cc, Cf and Co, except tab, line feed and
/// carriage return.
bool is_control(char32_t c) noexcept;
/// ASCII symbols and categories P*.
bool is_punctuation(char32_t c) noexcept;
/// Han as defined by BERT's tokenizer: the ideograph blocks, without kana and Hangul.
bool is_han(char32_t c) noexcept;

}  // namespace rotary::roformer
