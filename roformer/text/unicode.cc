// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

#include "roformer/text/unicode.h"

#include <utf8proc.h>

namespace rotary::roformer {
namespace {

constexpr bool between(char32_t c, char32_t first, char32_t last) {
  return c >= first && c <= last;
}

utf8proc_category_t category(char32_t c) noexcept {
  return utf8proc_category(static_cast<utf8proc_int32_t>(c));
}

}  // namespace

CodePoint decode_at(std::string_view text, std::size_t at) noexcept {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[at + i]); };
  const char32_t lead = byte(0);
  if (lead < 0x80) return {lead, 1};
  const std::uint32_t size = lead >= 0xF0 ? 4 : lead >= 0xE0 ? 3 : 2;
  if (lead < 0xC2 || lead > 0xF4 || text.size() - at < size) return {kReplacement, 1};
  char32_t value = lead & (0x7Fu >> size);
  for (std::uint32_t i = 1; i < size; ++i) {
    if ((byte(i) & 0xC0) != 0x80) return {kReplacement, 1};
    value = value << 6 | (byte(i) & 0x3Fu);
  }
  constexpr char32_t kMinValue[] = {0, 0, 0x80, 0x800, 0x10000};
  if (value < kMinValue[size] || value > 0x10FFFF || between(value, 0xD800, 0xDFFF)) {
    return {kReplacement, 1};
  }
  return {value, size};
}

void append_utf8(std::string& out, char32_t c) {
  const auto push = [&](char32_t byte) { out.push_back(static_cast<char>(byte)); };
  if (c < 0x80) {
    push(c);
  } else if (c < 0x800) {
    push(0xC0 | c >> 6);
    push(0x80 | (c & 0x3F));
  } else if (c < 0x10000) {
    push(0xE0 | c >> 12);
    push(0x80 | (c >> 6 & 0x3F));
    push(0x80 | (c & 0x3F));
  } else {
    push(0xF0 | c >> 18);
    push(0x80 | (c >> 12 & 0x3F));
    push(0x80 | (c >> 6 & 0x3F));
    push(0x80 | (c & 0x3F));
  }
}

std::string to_utf8(std::u32string_view text) {
  std::string out;
  out.reserve(text.size());
  for (const char32_t c : text) append_utf8(out, c);
  return out;
}

std::u32string to_code_points(std::string_view text) {
  std::u32string out;
  out.reserve(text.size());
  for (std::size_t at = 0; at < text.size();) {
    const CodePoint c = decode_at(text, at);
    out.push_back(c.value);
    at += c.size;
  }
  return out;
}

bool is_whitespace(char32_t c) noexcept {
  if (c < 0x80) return c == ' ' || between(c, '\t', '\r');
  if (c == 0x85) return true;
  const utf8proc_category_t kind = category(c);
  return kind == UTF8PROC_CATEGORY_ZS || kind == UTF8PROC_CATEGORY_ZL ||
         kind == UTF8PROC_CATEGORY_ZP;
}

bool is_control(char32_t c) noexcept {
  if (c < 0x80) return (c < ' ' && c != '\t' && c != '\n' && c != '\r') || c == 0x7F;
  const utf8proc_category_t kind = category(c);
  return kind == UTF8PROC_CATEGORY_CC || kind == UTF8PROC_CATEGORY_CF ||
         kind == UTF8PROC_CATEGORY_CO;
}

bool is_punctuation(char32_t c) noexcept {
  if (c < 0x80) {
    return between(c, '!', '/') || between(c, ':', '@') || between(c, '[', '`') ||
           between(c, '{', '~');
  }
  const utf8proc_category_t kind = category(c);
  return kind >= UTF8PROC_CATEGORY_PC && kind <= UTF8PROC_CATEGORY_PO;
}

bool is_han(char32_t c) noexcept {
  return between(c, 0x4E00, 0x9FFF) || between(c, 0x3400, 0x4DBF) || between(c, 0xF900, 0xFAFF) ||
         between(c, 0x20000, 0x2A6DF) || between(c, 0x2A700, 0x2B73F) ||
         between(c, 0x2B740, 0x2B81F) || between(c, 0x2B920, 0x2CEAF) ||
         between(c, 0x2F800, 0x2FA1F);
}

}  // namespace rotary::roformer
