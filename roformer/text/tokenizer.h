// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

/// Tokenizers: text to token ids and back.
///
///   namespace rf = rotary::roformer;
///   const auto tokenizer = rf::load_tokenizer({.kind = rf::TokenizerKind::kRoFormer,
///                                              .vocabulary = "vocab.txt",
///                                              .dictionary = "dict.txt"});
///   const rf::Encoding input = rf::encode(*tokenizer, "今天天气非常好。", {.max_length = 512});
///   tokenizer->decode(input.ids);        // "今天天气非常好。"
///
///   kRoFormer    jieba's words where the vocabulary has them, else like kBert: the ids of
///                transformers' RoFormerTokenizer
///   kBert        spaces, punctuation, each Han character, then WordPiece: BertTokenizer
///   kCharacter   each code point; "<0x0A>" in the vocabulary is the line feed
///   kByte        [PAD] [UNK] [CLS] [SEP] [MASK], then the 256 bytes; needs no file
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "roformer/text/normalizer.h"
#include "roformer/text/vocabulary.h"

namespace rotary::roformer {

class Segmenter;

enum class TokenizerKind : std::uint8_t { kRoFormer, kBert, kCharacter, kByte };
/// Whether "[MASK]" and the like in a text are special tokens (kRecognize) or ordinary text.
enum class SpecialText : std::uint8_t { kRecognize, kPlain };

struct TokenizerOptions {
  TokenizerKind kind = TokenizerKind::kRoFormer;
  std::filesystem::path vocabulary{};
  /// The segmenter's dictionary. Required for kRoFormer; optional for kBert, where it defines the
  /// words for whole-word masking.
  std::filesystem::path dictionary{};
  /// For kRoFormer and kBert; the other two do not normalise.
  Normalization normalization{};
  SpecialText special_text = SpecialText::kRecognize;
};

/// Bytes [begin, end) of the original text; {0, 0} for special tokens that are not in the text.
struct TextSpan {
  std::uint32_t begin = 0;
  std::uint32_t end = 0;

  friend bool operator==(const TextSpan&, const TextSpan&) = default;
};

/// The tokens of one text, without [CLS] and [SEP]. All vectors have the same length.
struct Tokens {
  std::vector<std::int32_t> ids{};
  std::vector<TextSpan> spans{};
  /// Index of the token's word: begins at 0, never decreases.
  std::vector<std::uint32_t> words{};

  void clear() noexcept;
  void push_back(std::int32_t id, TextSpan span, std::uint32_t word);
  std::size_t size() const noexcept { return ids.size(); }
};

/// Immutable and thread-safe.
class Tokenizer {
 public:
  virtual ~Tokenizer() = default;
  Tokenizer(const Tokenizer&) = delete;
  Tokenizer& operator=(const Tokenizer&) = delete;

  /// Replaces `out`, reusing its memory. Invalid UTF-8 is dropped (kCharacter: unknown token).
  /// Throws std::invalid_argument for a text of 4 GiB or more.
  void tokenize(std::string_view text, Tokens& out) const;
  Tokens tokenize(std::string_view text) const;

  /// The text of the tokens, without special ones. Exact for kCharacter and kByte; for the others
  /// normalisation is not undone, and spaces are inserted by rule. Throws std::invalid_argument for
  /// an id out of range.
  std::string decode(std::span<const std::int32_t> ids) const;

  const Vocabulary& vocabulary() const noexcept { return vocabulary_; }
  /// Equal for tokenizers that give equal ids.
  std::uint64_t fingerprint() const noexcept { return fingerprint_; }

 protected:
  Tokenizer(Vocabulary vocabulary, SpecialText special_text, std::uint64_t fingerprint);
  /// Appends the tokens of a part of the text that begins at byte `base`; its first word is
  /// next_word.
  virtual void append(std::string_view part, std::uint32_t base, std::uint32_t next_word,
                      Tokens& out) const = 0;
  /// Appends the text of tokens that are not special.
  virtual void append_text(std::int32_t id, std::string& out) const = 0;

 private:
  Vocabulary vocabulary_;
  SpecialText special_text_;
  std::uint64_t fingerprint_;
};

/// Reads the files. Throws IoError with path and line, std::invalid_argument if a path is missing.
std::unique_ptr<const Tokenizer> load_tokenizer(const TokenizerOptions& options);

/// From loaded parts; the paths of the options are not used. kRoFormer requires a segmenter.
std::unique_ptr<const Tokenizer> make_tokenizer(const TokenizerOptions& options,
                                                Vocabulary vocabulary,
                                                std::shared_ptr<const Segmenter> segmenter = {});

/// The 261 tokens of kByte.
Vocabulary byte_vocabulary();

/// Which text of a pair is truncated, always at its end.
enum class Truncation : std::uint8_t { kLongestFirst, kFirst, kSecond };

struct EncodeOptions {
  /// Maximum number of tokens, including [CLS] and [SEP]; 0: no limit.
  std::size_t max_length = 0;
  Truncation truncation = Truncation::kLongestFirst;
};

/// The input of a model. All vectors have the same length.
///   [CLS] A [SEP]            types 0
///   [CLS] A [SEP] B [SEP]    types 0, from B on 1
struct Encoding {
  std::vector<std::int32_t> ids{};
  std::vector<std::int32_t> types{};
  /// In text A for type 0, in text B for type 1.
  std::vector<TextSpan> spans{};
  /// Words of A, then those of B; kNoWord for [CLS] and [SEP].
  std::vector<std::uint32_t> words{};

  static constexpr std::uint32_t kNoWord = 0xFFFFFFFF;
};

/// Throws IoError if the vocabulary lacks [CLS] or [SEP], std::invalid_argument if max_length is
/// too small for them, or if truncating one side alone is not enough.
Encoding encode(const Tokenizer& tokenizer, std::string_view text,
                const EncodeOptions& options = {});
Encoding encode_pair(const Tokenizer& tokenizer, std::string_view first, std::string_view second,
                     const EncodeOptions& options = {});
/// A window of a long text B: [CLS] A [SEP] B [SEP] of the first `keep` tokens of A, and of tokens
/// [begin, end) of B. Throws IoError as encode() does.
Encoding encode_window(const Vocabulary& vocabulary, const Tokens& first, std::size_t keep,
                       const Tokens& second, std::size_t begin, std::size_t end);
/// Pre-segmented text: every word is tokenised separately. `words` are indices into the list, spans
/// are within the word. A word may have no token.
Encoding encode_words(const Tokenizer& tokenizer, std::span<const std::string> words,
                      const EncodeOptions& options = {});

}  // namespace rotary::roformer
