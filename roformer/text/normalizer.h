// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// The cleaning that every text goes through before it is cut: BERT's.
//
//   NUL, U+FFFD, controls, formats and private characters are dropped; white space becomes ' ';
//   canonical decomposition (NFD) without the non-spacing marks: "é" -> "e";  lower case.
//
// Categories and case are those of the Unicode version of utf8proc; what `tokenizers` has differs
// in a few hundred rare code points, because it carries tables of several versions.
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
  /// Byte of the original at which the character that text[i] comes from begins.
  std::vector<std::uint32_t> begin;

  void clear() noexcept;
  void push_back(char32_t c, std::uint32_t at);
};

/// Appends to `out`; `base` is added to every place. The caller keeps base + size below 4 GiB.
void normalize(std::string_view original, std::uint32_t base, const Normalization& how,
               NormalizedText& out);

}  // namespace rotary::roformer
