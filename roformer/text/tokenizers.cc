// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// The four kinds of tokenizer.
#include <array>
#include <stdexcept>
#include <unordered_map>
#include <utility>

#include "roformer/text/hash.h"
#include "roformer/text/segmenter.h"
#include "roformer/text/tokenizer.h"
#include "roformer/text/unicode.h"
#include "roformer/text/wordpiece.h"
#include "rotary/error.h"

namespace rotary::roformer {
namespace {

/// Scripts written without spaces, and their punctuation.
bool is_wide(char32_t c) noexcept {
  return (c >= 0x2E80 && c <= 0x9FFF) || (c >= 0xF900 && c <= 0xFAFF) ||
         (c >= 0xFF00 && c <= 0xFFEF) || (c >= 0x20000 && c <= 0x3FFFF);
}

/// The last code point of a text that is not empty.
char32_t last_of(std::string_view text) noexcept {
  std::size_t at = text.size() - 1;
  while (at > 0 && (static_cast<unsigned char>(text[at]) & 0xC0) == 0x80) --at;
  return decode_at(text, at).value;
}

bool needs_space(char32_t left, char32_t right) noexcept {
  constexpr std::u32string_view kNoneBefore = U".,!?;:%)]}…";
  constexpr std::u32string_view kNoneAfter = U"([{";
  return !is_wide(left) && !is_wide(right) &&
         kNoneBefore.find(right) == std::u32string_view::npos &&
         kNoneAfter.find(left) == std::u32string_view::npos;
}

/// Shared by kRoFormer and kBert: normalisation, WordPiece, decoding.
class PieceTokenizer : public Tokenizer {
 public:
  PieceTokenizer(const TokenizerOptions& options, Vocabulary vocabulary,
                 std::shared_ptr<const Segmenter> segmenter)
      : Tokenizer(std::move(vocabulary), options.special_text, fingerprint_of(options, *segmenter)),
        normalization_(options.normalization),
        pieces_(this->vocabulary()),
        segmenter_(std::move(segmenter)) {}

 protected:
  /// Appends the pieces of normalised characters [first, last), all of one word.
  void append_pieces(const NormalizedText& text, std::string_view part, std::uint32_t base,
                     std::size_t first, std::size_t last, std::uint32_t word,
                     std::vector<Piece>& scratch, Tokens& out) const {
    pieces_.split(std::u32string_view(text.text).substr(first, last - first), scratch);
    for (const Piece& piece : scratch) {
      out.push_back(piece.id, span_of(text, part, base, first, first + piece.size), word);
      first += piece.size;
    }
  }

  /// The bytes that normalised characters [first, last) come from.
  static TextSpan span_of(const NormalizedText& text, std::string_view part, std::uint32_t base,
                          std::size_t first, std::size_t last) noexcept {
    const std::uint32_t end = text.begin[last - 1];
    return {text.begin[first], end + decode_at(part, end - base).size};
  }

  void append_text(std::int32_t id, std::string& out) const final {
    const std::string_view token = vocabulary().token(id);
    if (token.size() > 2 && token.starts_with("##")) {
      out.append(token.substr(2));
      return;
    }
    if (!out.empty() && needs_space(last_of(out), decode_at(token, 0).value)) out += ' ';
    out.append(token);
  }

  const Normalization& normalization() const noexcept { return normalization_; }
  const WordPiece& pieces() const noexcept { return pieces_; }
  const Segmenter& segmenter() const noexcept { return *segmenter_; }

 private:
  static std::uint64_t fingerprint_of(const TokenizerOptions& options, const Segmenter& segmenter) {
    return mix(segmenter.fingerprint() + static_cast<std::uint64_t>(options.kind)) ^
           static_cast<std::uint64_t>(options.normalization.letter_case) << 1 ^
           static_cast<std::uint64_t>(options.normalization.accents) << 2;
  }

  Normalization normalization_;
  WordPiece pieces_;
  std::shared_ptr<const Segmenter> segmenter_;
};

class RoFormerTokenizer final : public PieceTokenizer {
 public:
  using PieceTokenizer::PieceTokenizer;

 private:
  void append(std::string_view part, std::uint32_t base, std::uint32_t next_word,
              Tokens& out) const final {
    NormalizedText text;
    std::vector<std::uint32_t> ends;
    std::vector<Piece> scratch;
    normalize(part, base, normalization(), text);
    segmenter().cut(text.text, ends);
    std::size_t first = 0;
    for (const std::size_t last : ends) {
      const auto word = std::u32string_view(text.text).substr(first, last - first);
      const std::size_t before = out.size();
      if (const std::int32_t id = pieces().whole(word); id != kNoToken) {
        out.push_back(id, span_of(text, part, base, first, last), next_word);
      } else {
        // Each Han character is a word of WordPiece; so is the text between them, with punctuation.
        for (std::size_t i = first; i < last;) {
          std::size_t end = i + 1;
          if (!is_han(text.text[i])) {
            while (end < last && !is_han(text.text[end])) ++end;
          }
          if (!is_whitespace(text.text[i])) {
            append_pieces(text, part, base, i, end, next_word, scratch, out);
          }
          i = end;
        }
      }
      next_word += out.size() > before ? 1 : 0;
      first = last;
    }
  }
};

class BertTokenizer final : public PieceTokenizer {
 public:
  BertTokenizer(const TokenizerOptions& options, Vocabulary vocabulary,
                std::shared_ptr<const Segmenter> segmenter)
      : PieceTokenizer(options, std::move(vocabulary),
                       segmenter ? std::move(segmenter) : std::make_shared<const Segmenter>()) {}

 private:
  void append(std::string_view part, std::uint32_t base, std::uint32_t next_word,
              Tokens& out) const final {
    NormalizedText text;
    std::vector<std::uint32_t> ends;
    std::vector<Piece> scratch;
    normalize(part, base, normalization(), text);
    if (segmenter().num_words() > 0) segmenter().cut(text.text, ends);
    std::size_t segment = 0;
    bool begins_word = false;
    for (std::size_t i = 0; i < text.text.size();) {
      const char32_t c = text.text[i];
      std::size_t end = i + 1;
      if (!is_separate(c)) {
        while (end < text.text.size() && !is_separate(text.text[end])) ++end;
      }
      // A word ends at each split made here, or where the segmenter ends one.
      bool new_word = ends.empty();
      while (segment < ends.size() && ends[segment] <= i) {
        ++segment;
        new_word = true;
      }
      begins_word = begins_word || new_word;
      if (!is_whitespace(c)) {
        if (begins_word && out.size() > 0 && out.words.back() >= next_word) ++next_word;
        begins_word = false;
        append_pieces(text, part, base, i, end, next_word, scratch, out);
      }
      i = end;
    }
  }

  static bool is_separate(char32_t c) noexcept {
    return is_whitespace(c) || is_punctuation(c) || is_han(c);
  }
};

/// Whether a word (for masking) ends between two characters.
bool is_word_boundary(char32_t left, char32_t right) noexcept {
  const auto alone = [](char32_t c) { return is_whitespace(c) || is_punctuation(c) || is_han(c); };
  return alone(left) || alone(right);
}

class CharacterTokenizer final : public Tokenizer {
 public:
  CharacterTokenizer(const TokenizerOptions& options, Vocabulary given)
      : Tokenizer(std::move(given), options.special_text,
                  static_cast<std::uint64_t>(TokenizerKind::kCharacter)),
        unknown_(vocabulary().special().unknown) {
    if (unknown_ == kNoToken) {
      throw IoError(vocabulary().source(), IoError::kNoOffset, "the vocabulary has no [UNK]");
    }
    for (std::int32_t id = 0; id < vocabulary().size(); ++id) {
      const char32_t c = character_of(vocabulary().token(id));
      if (c != kReplacement) ids_.emplace(c, id);
    }
  }

 private:
  /// The character of a token; U+FFFD for tokens of several characters.
  static char32_t character_of(std::string_view token) noexcept {
    if (token.size() == 6 && token.starts_with("<0x") && token.ends_with(">")) {
      const auto digit = [](char c) { return c >= 'A' ? c - 'A' + 10 : c - '0'; };
      return static_cast<char32_t>(digit(token[3]) * 16 + digit(token[4]));
    }
    const CodePoint first = decode_at(token, 0);
    return first.size == token.size() ? first.value : kReplacement;
  }

  void append(std::string_view part, std::uint32_t base, std::uint32_t next_word,
              Tokens& out) const final {
    char32_t before = 0;
    for (std::size_t at = 0; at < part.size();) {
      const CodePoint c = decode_at(part, at);
      if (at > 0 && is_word_boundary(before, c.value)) ++next_word;
      const auto found = ids_.find(c.value);
      const std::uint32_t begin = base + static_cast<std::uint32_t>(at);
      out.push_back(found != ids_.end() ? found->second : unknown_, {begin, begin + c.size},
                    next_word);
      before = c.value;
      at += c.size;
    }
  }

  void append_text(std::int32_t id, std::string& out) const final {
    const std::string& token = vocabulary().token(id);
    const char32_t c = character_of(token);
    if (c != kReplacement) {
      append_utf8(out, c);
    } else {
      out += token;
    }
  }

  std::unordered_map<char32_t, std::int32_t> ids_;
  std::int32_t unknown_;
};

/// The id of byte 0 in the vocabulary of kByte.
constexpr std::int32_t kFirstByte = 5;

class ByteTokenizer final : public Tokenizer {
 public:
  explicit ByteTokenizer(const TokenizerOptions& options)
      : Tokenizer(byte_vocabulary(), options.special_text,
                  static_cast<std::uint64_t>(TokenizerKind::kByte)) {}

 private:
  void append(std::string_view part, std::uint32_t base, std::uint32_t next_word,
              Tokens& out) const final {
    for (std::size_t at = 0; at < part.size(); ++at) {
      const auto byte = static_cast<unsigned char>(part[at]);
      // Bytes of non-ASCII characters belong to a word.
      const auto letter = [](unsigned char b) { return b < 0x80 ? char32_t{b} : U'a'; };
      if (at > 0 &&
          is_word_boundary(letter(static_cast<unsigned char>(part[at - 1])), letter(byte))) {
        ++next_word;
      }
      const std::uint32_t begin = base + static_cast<std::uint32_t>(at);
      out.push_back(kFirstByte + byte, {begin, begin + 1}, next_word);
    }
  }

  void append_text(std::int32_t id, std::string& out) const final {
    out += static_cast<char>(id - kFirstByte);
  }
};

std::string hex_token(std::uint32_t byte) {
  constexpr std::string_view kDigits = "0123456789ABCDEF";
  return std::string("<0x") + kDigits[byte >> 4] + kDigits[byte & 15] + ">";
}

}  // namespace

Vocabulary byte_vocabulary() {
  std::vector<std::string> tokens(special_tokens().begin(), special_tokens().end());
  for (std::uint32_t byte = 0; byte < 256; ++byte) tokens.push_back(hex_token(byte));
  return Vocabulary(std::move(tokens), "byte vocabulary");
}

std::unique_ptr<const Tokenizer> make_tokenizer(const TokenizerOptions& options,
                                                Vocabulary vocabulary,
                                                std::shared_ptr<const Segmenter> segmenter) {
  switch (options.kind) {
    case TokenizerKind::kRoFormer:
      if (!segmenter) throw std::invalid_argument("[make_tokenizer] kRoFormer needs a segmenter");
      return std::make_unique<RoFormerTokenizer>(options, std::move(vocabulary),
                                                 std::move(segmenter));
    case TokenizerKind::kBert:
      return std::make_unique<BertTokenizer>(options, std::move(vocabulary), std::move(segmenter));
    case TokenizerKind::kCharacter:
      return std::make_unique<CharacterTokenizer>(options, std::move(vocabulary));
    case TokenizerKind::kByte:
      return std::make_unique<ByteTokenizer>(options);
  }
  throw std::invalid_argument("[make_tokenizer] no such kind of tokenizer");
}

std::unique_ptr<const Tokenizer> load_tokenizer(const TokenizerOptions& options) {
  if (options.kind == TokenizerKind::kByte) return make_tokenizer(options, byte_vocabulary());
  if (options.vocabulary.empty()) {
    throw std::invalid_argument("[load_tokenizer] this kind of tokenizer needs a vocabulary");
  }
  if (options.dictionary.empty() && options.kind == TokenizerKind::kRoFormer) {
    throw std::invalid_argument("[load_tokenizer] kRoFormer needs the dictionary of the segmenter");
  }
  Vocabulary vocabulary = Vocabulary::load(options.vocabulary);
  std::shared_ptr<const Segmenter> segmenter;
  if (!options.dictionary.empty() && options.kind != TokenizerKind::kCharacter) {
    segmenter = std::make_shared<const Segmenter>(Segmenter::load(options.dictionary));
  }
  return make_tokenizer(options, std::move(vocabulary), std::move(segmenter));
}

}  // namespace rotary::roformer
