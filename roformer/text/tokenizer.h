// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

/// Text to token numbers and back.
///
///   namespace rf = rotary::roformer;
///   const auto tokenizer = rf::load_tokenizer({.kind = rf::TokenizerKind::kRoFormer,
///                                              .vocabulary = "vocab.txt",
///                                              .dictionary = "dict.txt"});
///   const rf::Encoding input = rf::encode(*tokenizer, "今天天气非常好。", {.max_length = 512});
///   tokenizer->decode(input.ids);        // "今天天气非常好。"
///
///   kRoFormer    words of jieba that the vocabulary has, the others in BERT's way: the ids of
///                transformers' RoFormerTokenizer
///   kBert        spaces, punctuation, each Han character, then WordPiece: BertTokenizer
///   kCharacter   each code point as it stands; "<0x0A>" in the vocabulary is the line feed
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
/// What "[MASK]" in a text is: the mask, or a bracket, a word and a bracket.
enum class SpecialText : std::uint8_t { kRecognize, kPlain };

struct TokenizerOptions {
  TokenizerKind kind = TokenizerKind::kRoFormer;
  std::filesystem::path vocabulary{};
  /// Of the segmenter. kRoFormer needs it; with kBert it may be given, and says which tokens form a
  /// word where whole words are masked.
  std::filesystem::path dictionary{};
  /// Of kRoFormer and kBert; the other two change nothing.
  Normalization normalization{};
  SpecialText special_text = SpecialText::kRecognize;
};

/// Bytes [begin, end) of the original text; 0, 0 for tokens that come from none.
struct TextSpan {
  std::uint32_t begin = 0;
  std::uint32_t end = 0;

  friend bool operator==(const TextSpan&, const TextSpan&) = default;
};

/// The tokens of one text, without [CLS] and [SEP]. All three are of one length.
struct Tokens {
  std::vector<std::int32_t> ids{};
  std::vector<TextSpan> spans{};
  /// Number of the word that the token is a part of: 0 at first, never falling.
  std::vector<std::uint32_t> words{};

  void clear() noexcept;
  void push_back(std::int32_t id, TextSpan span, std::uint32_t word);
  std::size_t size() const noexcept { return ids.size(); }
};

/// Immutable: any number of threads may use one.
class Tokenizer {
 public:
  virtual ~Tokenizer() = default;
  Tokenizer(const Tokenizer&) = delete;
  Tokenizer& operator=(const Tokenizer&) = delete;

  /// Replaces `out`, whose memory is used again. Bytes that are not UTF-8 are dropped (kCharacter:
  /// unknown). Throws std::invalid_argument for a text of 4 GiB or more.
  void tokenize(std::string_view text, Tokens& out) const;
  Tokens tokenize(std::string_view text) const;

  /// The text that the tokens stand for, without special ones. Exact for kCharacter and kByte; for
  /// the others what normalisation took away is lost, and spaces are put where they are usual.
  /// Throws std::invalid_argument for a number out of range.
  std::string decode(std::span<const std::int32_t> ids) const;

  const Vocabulary& vocabulary() const noexcept { return vocabulary_; }
  /// Equal for tokenisers that give equal ids.
  std::uint64_t fingerprint() const noexcept { return fingerprint_; }

 protected:
  Tokenizer(Vocabulary vocabulary, SpecialText special_text, std::uint64_t fingerprint);
  /// Appends the tokens of a part of the text that begins at byte `base`, words from next_word on.
  virtual void append(std::string_view part, std::uint32_t base, std::uint32_t next_word,
                      Tokens& out) const = 0;
  /// Appends the text of tokens that are not special.
  virtual void append_text(std::int32_t id, std::string& out) const = 0;

 private:
  Vocabulary vocabulary_;
  SpecialText special_text_;
  std::uint64_t fingerprint_;
};

/// Reads the files. Throws IoError (path, line, rule), std::invalid_argument for a missing path.
std::unique_ptr<const Tokenizer> load_tokenizer(const TokenizerOptions& options);

/// From parts already read; the options' paths are not used. The segmenter is needed for kRoFormer.
std::unique_ptr<const Tokenizer> make_tokenizer(const TokenizerOptions& options,
                                                Vocabulary vocabulary,
                                                std::shared_ptr<const Segmenter> segmenter = {});

/// The 261 tokens of kByte.
Vocabulary byte_vocabulary();

/// Which side gives way when a text or a pair is too long; always at its end.
enum class Truncation : std::uint8_t { kLongestFirst, kFirst, kSecond };

struct EncodeOptions {
  /// Tokens with [CLS] and [SEP]; 0: no limit.
  std::size_t max_length = 0;
  Truncation truncation = Truncation::kLongestFirst;
};

/// What a model reads. All are of one length.
///   [CLS] A [SEP]            types 0
///   [CLS] A [SEP] B [SEP]    types 0, from B on 1
struct Encoding {
  std::vector<std::int32_t> ids{};
  std::vector<std::int32_t> types{};
  /// In A where the type is 0, in B where it is 1.
  std::vector<TextSpan> spans{};
  /// Words of A, then those of B; kNoWord for [CLS] and [SEP].
  std::vector<std::uint32_t> words{};

  static constexpr std::uint32_t kNoWord = 0xFFFFFFFF;
};

/// Throws IoError if the vocabulary lacks [CLS] or [SEP], std::invalid_argument if the limit leaves
/// no room for them, or if one side alone cannot give way enough.
Encoding encode(const Tokenizer& tokenizer, std::string_view text,
                const EncodeOptions& options = {});
Encoding encode_pair(const Tokenizer& tokenizer, std::string_view first, std::string_view second,
                     const EncodeOptions& options = {});
/// A text that is cut into words already: each is tokenised by itself, `words` are numbers in the
/// list, and spans are of the word. A word may have no token.
Encoding encode_words(const Tokenizer& tokenizer, std::span<const std::string> words,
                      const EncodeOptions& options = {});

}  // namespace rotary::roformer
