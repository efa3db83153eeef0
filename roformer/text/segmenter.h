// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

/// Words of Chinese text, found without spaces.
///
///   const auto segmenter = rotary::roformer::Segmenter::load("dict.txt");
///   segmenter.words("我来到北京清华大学");   // 我 来到 北京 清华大学
///
/// What jieba 0.42.1 gives as cut(text, HMM=False), word for word, over the same dictionary: of all
/// ways to cut a run of Han and Latin into words of the dictionary, the one of the largest product
/// of frequencies; letters and digits that stand alone are joined.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "roformer/text/trie.h"

namespace rotary::roformer {

/// Immutable once loaded: any number of threads may use one.
class Segmenter {
 public:
  /// Without a dictionary: each Han character is a word.
  Segmenter() = default;
  /// Lines of "word frequency [tag]", UTF-8. Throws IoError with path and line.
  static Segmenter load(const std::filesystem::path& dictionary);
  /// The same from memory; `source` names it in errors.
  static Segmenter parse(std::string_view dictionary, const std::string& source);

  /// Where each word ends, in code points: the last is text.size(). Words are never empty.
  void cut(std::u32string_view text, std::vector<std::uint32_t>& ends) const;
  /// The words themselves.
  std::vector<std::string> words(std::string_view text) const;

  std::size_t num_words() const noexcept { return num_words_; }
  /// Equal for dictionaries of equal bytes.
  std::uint64_t fingerprint() const noexcept { return fingerprint_; }

 private:
  void cut_block(std::u32string_view text, std::size_t first, std::size_t last,
                 std::vector<std::uint32_t>& ends) const;

  Trie trie_;
  /// Logarithm of each node's share of all frequencies; minus infinity where no word ends.
  std::vector<double> score_{};
  double score_of_unknown_ = 0;
  std::size_t num_words_ = 0;
  std::uint64_t fingerprint_ = 0;
};

}  // namespace rotary::roformer
