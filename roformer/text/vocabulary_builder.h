// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

/// A vocabulary from a corpus. The same corpus gives the same vocabulary, however it is divided
/// among threads.
///
///   namespace rf = rotary::roformer;
///   rf::VocabularyBuilder builder({.kind = rf::VocabularyKind::kPieces, .size = 30000});
///   rf::Counts counts;
///   builder.count("a document", counts);      // from any thread, into counts of its own
///   builder.absorb(counts);
///   builder.build().save("vocab.txt");
///
///   kCharacters   code points as they stand, for kCharacter
///   kWords        words of the segmenter, and the characters to spell all others, for kRoFormer
///   kPieces       WordPiece: the most frequent pair of neighbours becomes a piece, again and again
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>

#include "roformer/text/normalizer.h"
#include "roformer/text/segmenter.h"
#include "roformer/text/vocabulary.h"

namespace rotary::roformer {

/// How often each string was seen.
class Counts {
 public:
  void add(std::string_view text, std::uint64_t count = 1);
  /// Adds all of `other`.
  void merge(const Counts& other);
  /// Drops the rarest until at most that many are left.
  void prune(std::size_t limit);
  bool contains(std::string_view text) const { return counts_.contains(text); }
  void clear() noexcept { counts_.clear(); }

  std::size_t size() const noexcept { return counts_.size(); }
  auto begin() const noexcept { return counts_.begin(); }
  auto end() const noexcept { return counts_.end(); }

 private:
  struct Hash {
    using is_transparent = void;
    std::size_t operator()(std::string_view text) const noexcept {
      return std::hash<std::string_view>()(text);
    }
  };
  std::unordered_map<std::string, std::uint64_t, Hash, std::equal_to<>> counts_;
};

enum class VocabularyKind : std::uint8_t { kCharacters, kWords, kPieces };

struct VocabularyOptions {
  VocabularyKind kind = VocabularyKind::kPieces;
  /// Tokens at most, the five special ones with them.
  std::int32_t size = 30000;
  /// What is seen less often is left out.
  std::uint64_t min_count = 2;
  /// Of kWords and kPieces.
  Normalization normalization{};
  /// Different words kept in memory, about 100 bytes each. Beyond, the rarest are forgotten, and
  /// counts become approximate.
  std::size_t max_words = 20'000'000;
};

class VocabularyBuilder {
 public:
  /// The segmenter is needed for kWords. Throws std::invalid_argument without it, and for a size
  /// that holds no more than the special tokens.
  explicit VocabularyBuilder(const VocabularyOptions& options,
                             std::shared_ptr<const Segmenter> segmenter = {});

  /// Adds what is counted in a text to `counts`.
  void count(std::string_view text, Counts& counts) const;
  /// Takes over what was counted. For equal vocabularies beyond max_words, in equal order.
  void absorb(const Counts& counts);
  /// [PAD] [UNK] [CLS] [SEP] [MASK], then characters, words or pieces, the most frequent first.
  Vocabulary build() const;

 private:
  VocabularyOptions options_;
  std::shared_ptr<const Segmenter> segmenter_;
  Counts counts_;
};

}  // namespace rotary::roformer
