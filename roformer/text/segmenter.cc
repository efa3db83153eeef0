// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

#include "roformer/text/segmenter.h"

#include <charconv>
#include <cmath>
#include <limits>

#include "io/file_reader.h"
#include "roformer/text/hash.h"
#include "roformer/text/lines.h"
#include "roformer/text/unicode.h"
#include "rotary/error.h"

namespace rotary::roformer {
namespace {

constexpr std::size_t kMaxMebibytes = 256;

constexpr double kNoWord = -std::numeric_limits<double>::infinity();
/// The time to segment a text is bounded by its length times that of the longest word.
constexpr std::size_t kMaxWordLength = 256;

bool is_letter_or_digit(char32_t c) noexcept {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
}

/// Characters of words (jieba's re_han_default); every other character is a word by itself.
bool is_word_character(char32_t c) noexcept {
  if (c >= 0x4E00) return c <= 0x9FD5;
  return is_letter_or_digit(c) || c == '+' || c == '#' || c == '&' || c == '.' || c == '_' ||
         c == '%' || c == '-';
}

/// The best segmentation of the text from one position on.
struct BestSuffix {
  double score = 0;
  std::size_t next = 0;
};

}  // namespace

Segmenter Segmenter::load(const std::filesystem::path& dictionary) {
  return parse(internal::read_small_file(dictionary, kMaxMebibytes), dictionary.string());
}

Segmenter Segmenter::parse(std::string_view dictionary, const std::string& source) {
  Segmenter made;
  std::vector<std::uint64_t> frequency;
  double total = 0;
  for_each_line(dictionary, [&](std::string_view line, std::size_t number) {
    if (line.empty()) return;
    const std::size_t space = line.find(' ');
    std::uint64_t count = 0;
    const char* const end = line.data() + line.size();
    if (space != std::string_view::npos) {
      const auto [rest, error] = std::from_chars(line.data() + space + 1, end, count);
      if (error == std::errc() && space > 0 && (rest == end || *rest == ' ')) {
        const std::u32string word = to_code_points(line.substr(0, space));
        if (word.size() > kMaxWordLength) {
          fail_at_line(source, number,
                       "a word of " + std::to_string(word.size()) + " characters; at most " +
                           std::to_string(kMaxWordLength) + " are allowed");
        }
        const std::uint32_t node = made.trie_.insert(word);
        frequency.resize(made.trie_.num_nodes());
        made.num_words_ += frequency[node] == 0 && count > 0 ? 1 : 0;
        frequency[node] = count;
        total += static_cast<double>(count);
        return;
      }
    }
    fail_at_line(source, number, "expected \"word frequency [tag]\", got " + in_quotes(line));
  });
  if (made.num_words_ == 0)
    throw IoError(source, IoError::kNoOffset, "the dictionary has no words");

  made.fingerprint_ = hash_bytes(dictionary);
  const double log_total = std::log(total);
  made.unknown_score_ = 0.0 - log_total;
  made.score_.reserve(frequency.size());
  for (const std::uint64_t count : frequency) {
    made.score_.push_back(count > 0 ? std::log(static_cast<double>(count)) - log_total : kNoWord);
  }
  return made;
}

void Segmenter::segment_block(std::u32string_view text, std::size_t first, std::size_t last,
                              std::vector<std::uint32_t>& ends) const {
  // Dynamic programming from the right: best[i] is for the text from first + i on. Ties go to the
  // longer word.
  std::vector<BestSuffix> best(last - first + 1);
  for (std::size_t from = last; from-- > first;) {
    BestSuffix candidate{kNoWord, from + 1};
    std::uint32_t node = Trie::kRoot;
    for (std::size_t to = from; to < last; ++to) {
      node = trie_.child(node, text[to]);
      if (node == Trie::kNone) break;
      if (score_[node] == kNoWord) continue;
      const double score = score_[node] + best[to + 1 - first].score;
      if (score >= candidate.score) candidate = {score, to + 1};
    }
    if (candidate.score == kNoWord) candidate.score = unknown_score_ + best[from + 1 - first].score;
    best[from - first] = candidate;
  }

  bool joining = false;
  for (std::size_t from = first; from < last;) {
    const std::size_t to = best[from - first].next;
    const bool single = to == from + 1 && is_letter_or_digit(text[from]);
    if (joining && single) {
      ends.back() = static_cast<std::uint32_t>(to);
    } else {
      ends.push_back(static_cast<std::uint32_t>(to));
    }
    joining = single;
    from = to;
  }
}

void Segmenter::cut(std::u32string_view text, std::vector<std::uint32_t>& ends) const {
  ends.clear();
  for (std::size_t i = 0; i < text.size();) {
    std::size_t end = i;
    while (end < text.size() && is_word_character(text[end])) ++end;
    if (end > i) {
      segment_block(text, i, end, ends);
    } else {
      const bool line_end = text[i] == '\r' && i + 1 < text.size() && text[i + 1] == '\n';
      end = i + (line_end ? 2 : 1);
      ends.push_back(static_cast<std::uint32_t>(end));
    }
    i = end;
  }
}

std::vector<std::string> Segmenter::words(std::string_view text) const {
  const std::u32string code_points = to_code_points(text);
  std::vector<std::uint32_t> ends;
  cut(code_points, ends);
  std::vector<std::string> out;
  out.reserve(ends.size());
  std::size_t begin = 0;
  for (const std::uint32_t end : ends) {
    out.push_back(to_utf8(std::u32string_view(code_points).substr(begin, end - begin)));
    begin = end;
  }
  return out;
}

}  // namespace rotary::roformer
