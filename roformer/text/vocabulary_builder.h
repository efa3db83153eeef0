// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

/// Builds a vocabulary from a corpus. The result does not depend on the distribution among threads.
///
///   namespace rf = rotary::roformer;
///   rf::VocabularyBuilder builder({.kind = rf::VocabularyKind::kPieces, .size = 30000});
///   rf::Counts counts;
///   builder.count("a document", counts);      // from any thread, with separate counts
///   builder.merge(counts);
///   builder.build().save("vocab.txt");
///
///   kCharacters   code points, for kCharacter
///   kWords        words of the segmenter, and characters for all other words, for kRoFormer
///   kPieces       WordPiece: repeatedly merges the most frequent pair of adjacent pieces
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

/// Counts of strings.
class Counts {
 public:
  void add(std::string_view text, std::uint64_t count = 1);
  /// Adds the counts of `other`.
  void merge(const Counts& other);
  /// Removes the rarest strings until at most `limit` are left.
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
  /// Maximum number of tokens, including the five special ones.
  std::int32_t size = 30000;
  /// Strings with a lower count are not added.
  std::uint64_t min_count = 2;
  /// For kWords and kPieces.
  Normalization normalization{};
  /// Distinct words kept in memory, about 100 bytes each. Beyond that the rarest are dropped and
  /// counts are approximate.
  std::size_t max_words = 20'000'000;
};

class VocabularyBuilder {
 public:
  /// kWords requires a segmenter. Throws std::invalid_argument without it, and for a size that
  /// leaves only the special tokens.
  explicit VocabularyBuilder(const VocabularyOptions& options,
                             std::shared_ptr<const Segmenter> segmenter = {});

  /// Counts the strings of a text.
  void count(std::string_view text, Counts& counts) const;
  /// Adds counts. Beyond max_words the result depends on the order of calls.
  void merge(const Counts& counts);
  /// [PAD] [UNK] [CLS] [SEP] [MASK], then characters, words or pieces, the most frequent first.
  Vocabulary build() const;

 private:
  VocabularyOptions options_;
  std::shared_ptr<const Segmenter> segmenter_;
  Counts counts_;
};

}  // namespace rotary::roformer
