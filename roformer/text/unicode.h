// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// Code points: UTF-8 in and out, and the few properties that tokenising asks for. Properties come
// from utf8proc; ranges that stand here are those of the tokenisers that are followed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace rotary::roformer {

inline constexpr char32_t kReplacement = 0xFFFD;

/// A code point and the bytes it took.
struct CodePoint {
  char32_t value;
  std::uint32_t size;
};

/// The code point that begins at text[at]; at < text.size(). A byte that begins no valid sequence
/// is U+FFFD of size 1.
CodePoint decode_at(std::string_view text, std::size_t at) noexcept;

void append_utf8(std::string& out, char32_t c);
std::string to_utf8(std::u32string_view text);
std::u32string to_code_points(std::string_view text);

/// Unicode's White_Space.
bool is_whitespace(char32_t c) noexcept;
/// What cleaning removes: categories Cc, Cf and Co but for tab, line feed and carriage return.
bool is_control(char32_t c) noexcept;
/// ASCII symbols, and categories P*.
bool is_punctuation(char32_t c) noexcept;
/// Han as the tokeniser of BERT has it: the blocks of ideographs, without kana and Hangul.
bool is_han(char32_t c) noexcept;

}  // namespace rotary::roformer
