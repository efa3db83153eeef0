// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

/// Word segmentation of Chinese text.
///
///   const auto segmenter = rotary::roformer::Segmenter::load("dict.txt");
///   segmenter.words("我来到北京清华大学");   // 我 来到 北京 清华大学
///
/// Identical to jieba 0.42.1's cut(text, HMM=False) with the same dictionary: of all segmentations
/// of a run of Han and Latin characters into dictionary words, the one with the largest product of
/// frequencies; adjacent single letters and digits are joined.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "roformer/text/trie.h"

namespace rotary::roformer {

/// Immutable and thread-safe.
class Segmenter {
 public:
  /// Without a dictionary every Han character is a word.
  Segmenter() = default;
  /// Lines of "word frequency [tag]", UTF-8. Throws IoError with path and line.
  static Segmenter load(const std::filesystem::path& dictionary);
  /// From memory; `source` is the name in errors.
  static Segmenter parse(std::string_view dictionary, const std::string& source);

  /// The end of each word in code points; the last one is text.size(). Words are never empty.
  void cut(std::u32string_view text, std::vector<std::uint32_t>& ends) const;
  /// The words as strings.
  std::vector<std::string> words(std::string_view text) const;

  std::size_t num_words() const noexcept { return num_words_; }
  /// Equal for dictionaries of equal bytes.
  std::uint64_t fingerprint() const noexcept { return fingerprint_; }

 private:
  void segment_block(std::u32string_view text, std::size_t first, std::size_t last,
                     std::vector<std::uint32_t>& ends) const;

  Trie trie_;
  /// Log relative frequency of the word that ends at each node; minus infinity if none does.
  std::vector<double> score_{};
  double unknown_score_ = 0;
  std::size_t num_words_ = 0;
  std::uint64_t fingerprint_ = 0;
};

}  // namespace rotary::roformer
