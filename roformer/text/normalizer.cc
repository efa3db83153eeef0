// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

#include "roformer/text/normalizer.h"

#include <utf8proc.h>

#include <algorithm>
#include <array>

#include "roformer/text/unicode.h"

namespace rotary::roformer {
namespace {

struct CombiningCharacter {
  char32_t value;
  std::uint32_t at;
  int combining_class;
  bool mark;
};

/// Decomposes characters canonically (NFD) and removes non-spacing marks.
class AccentStripper {
 public:
  explicit AccentStripper(NormalizedText& out) : out_(out) {}

  void add(char32_t c, std::uint32_t at) {
    // A decomposition has at most 4 characters (Unicode's stability policy).
    std::array<utf8proc_int32_t, 8> parts{};
    int boundary = 0;
    const utf8proc_ssize_t count =
        utf8proc_decompose_char(static_cast<utf8proc_int32_t>(c), parts.data(), parts.size(),
                                UTF8PROC_DECOMPOSE, &boundary);
    if (count < 1 || count > static_cast<utf8proc_ssize_t>(parts.size())) return add_part(c, at);
    for (utf8proc_ssize_t i = 0; i < count; ++i) {
      add_part(static_cast<char32_t>(parts[static_cast<std::size_t>(i)]), at);
    }
  }

  /// Ends a run of combining characters.
  void flush() {
    if (run_.empty()) return;
    std::ranges::stable_sort(run_, {}, &CombiningCharacter::combining_class);
    for (const CombiningCharacter& next : run_) {
      if (!next.mark) out_.push_back(next.value, next.at);
    }
    run_.clear();
  }

 private:
  void add_part(char32_t c, std::uint32_t at) {
    const utf8proc_property_t* property = utf8proc_get_property(static_cast<utf8proc_int32_t>(c));
    const bool mark = property->category == UTF8PROC_CATEGORY_MN;
    if (property->combining_class != 0) {
      run_.push_back({c, at, property->combining_class, mark});
      return;
    }
    flush();
    if (!mark) out_.push_back(c, at);
  }

  NormalizedText& out_;
  std::vector<CombiningCharacter> run_;
};

/// The only upper-case letter whose lower case has more than one character.
constexpr char32_t kCapitalIWithDot = 0x130;

void lower(NormalizedText& out, std::size_t first) {
  for (std::size_t i = first; i < out.text.size(); ++i) {
    char32_t& c = out.text[i];
    if (c < 0x80) {
      if (c >= 'A' && c <= 'Z') c += 'a' - 'A';
    } else if (c == kCapitalIWithDot) {
      c = 'i';
      const auto after = static_cast<std::ptrdiff_t>(++i);
      out.text.insert(i, 1, 0x307);
      out.begin.insert(out.begin.begin() + after, out.begin[i - 1]);
    } else if (c < 0x2E80 || c > 0x9FFF) {  // scripts between them have no case
      c = static_cast<char32_t>(utf8proc_tolower(static_cast<utf8proc_int32_t>(c)));
    }
  }
}

}  // namespace

void NormalizedText::clear() noexcept {
  text.clear();
  begin.clear();
}

void NormalizedText::push_back(char32_t c, std::uint32_t at) {
  text.push_back(c);
  begin.push_back(at);
}

void normalize(std::string_view original, std::uint32_t base, const Normalization& options,
               NormalizedText& out) {
  const std::size_t first = out.text.size();
  AccentStripper stripper(out);
  for (std::size_t i = 0; i < original.size();) {
    const CodePoint c = decode_at(original, i);
    const std::uint32_t at = base + static_cast<std::uint32_t>(i);
    i += c.size;
    // ASCII and the main block of Han have neither decomposition nor category to look up.
    const bool plain = c.value < 0x80 || (c.value >= 0x4E00 && c.value <= 0x9FFF);
    if (c.value == 0 || c.value == kReplacement ||
        ((c.value < 0x80 || !plain) && is_control(c.value))) {
      continue;
    }
    if (plain) {
      stripper.flush();
      out.push_back(c.value < 0x80 && is_whitespace(c.value) ? U' ' : c.value, at);
    } else if (is_whitespace(c.value)) {
      stripper.flush();
      out.push_back(U' ', at);
    } else if (options.accents == Accents::kStrip) {
      stripper.add(c.value, at);
    } else {
      out.push_back(c.value, at);
    }
  }
  stripper.flush();
  if (options.letter_case == LetterCase::kLower) lower(out, first);
}

}  // namespace rotary::roformer
