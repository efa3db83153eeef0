// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// BERT's text normalisation, applied before tokenisation.
//
//   NUL, U+FFFD, control, format and private-use characters are removed; white space becomes ' ';
//   canonical decomposition (NFD) without the non-spacing marks: "é" -> "e";  lower case.
//
// Categories and case follow the Unicode version of utf8proc. Hugging Face's `tokenizers` mixes
// tables of several versions and differs in a few hundred rare code points.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace rotary::roformer {

enum class LetterCase : std::uint8_t { kLower, kKeep };
enum class Accents : std::uint8_t { kStrip, kKeep };

struct Normalization {
  LetterCase letter_case = LetterCase::kLower;
  Accents accents = Accents::kStrip;
};

struct NormalizedText {
  std::u32string text;
  /// Byte offset in the original of the character that text[i] comes from.
  std::vector<std::uint32_t> begin;

  void clear() noexcept;
  void push_back(char32_t c, std::uint32_t at);
};

/// Appends to `out`; `base` is added to every offset. base + size must be below 4 GiB.
void normalize(std::string_view original, std::uint32_t base, const Normalization& options,
               NormalizedText& out);

}  // namespace rotary::roformer
