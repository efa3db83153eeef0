// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

#include "roformer/text/vocabulary_builder.h"

#include <algorithm>
#include <stdexcept>
#include <utility>
#include <vector>

#include "roformer/text/piece_trainer.h"
#include "roformer/text/unicode.h"

namespace rotary::roformer {
namespace {

using Counted = std::vector<std::pair<std::string, std::uint64_t>>;

/// Sorted by descending count, then by bytes.
Counted by_count(const Counts& counts, std::uint64_t min_count) {
  Counted out;
  for (const auto& [text, count] : counts) {
    if (count >= min_count) out.emplace_back(text, count);
  }
  std::ranges::sort(out, [](const auto& a, const auto& b) {
    return a.second != b.second ? a.second > b.second : a.first < b.first;
  });
  return out;
}

bool is_separate(char32_t c) noexcept { return is_punctuation(c) || is_han(c); }

std::string character_token(char32_t c) {
  constexpr std::string_view kDigits = "0123456789ABCDEF";
  if (c < ' ' || c == 0x7F) return std::string("<0x") + kDigits[c >> 4] + kDigits[c & 15] + ">";
  std::string out;
  append_utf8(out, c);
  return out;
}

/// The single-character tokens of words that are not tokens themselves: characters, and "##"
/// characters that continue a word.
Counts character_counts(const Counts& words) {
  Counts out;
  std::string token;
  for (const auto& [word, count] : words) {
    bool continues = false;
    for (std::size_t at = 0; at < word.size();) {
      const CodePoint c = decode_at(word, at);
      token = continues && !is_han(c.value) ? "##" : "";
      token.append(word, at, c.size);
      out.add(token, count);
      continues = !is_han(c.value);
      at += c.size;
    }
  }
  return out;
}

}  // namespace

void Counts::add(std::string_view text, std::uint64_t count) {
  const auto at = counts_.find(text);
  if (at != counts_.end()) {
    at->second += count;
  } else {
    counts_.emplace(text, count);
  }
}

void Counts::merge(const Counts& other) {
  for (const auto& [text, count] : other) add(text, count);
}

void Counts::prune(std::size_t limit) {
  for (std::uint64_t min_count = 2; counts_.size() > limit; ++min_count) {
    std::erase_if(counts_, [&](const auto& entry) { return entry.second < min_count; });
  }
}

VocabularyBuilder::VocabularyBuilder(const VocabularyOptions& options,
                                     std::shared_ptr<const Segmenter> segmenter)
    : options_(options), segmenter_(std::move(segmenter)) {
  if (options_.kind == VocabularyKind::kWords && !segmenter_) {
    throw std::invalid_argument("[VocabularyBuilder] kWords needs a segmenter");
  }
  if (options_.size <= static_cast<std::int32_t>(special_tokens().size())) {
    throw std::invalid_argument("[VocabularyBuilder] size must be above 5, got " +
                                std::to_string(options_.size));
  }
}

void VocabularyBuilder::count(std::string_view text, Counts& counts) const {
  if (options_.kind == VocabularyKind::kCharacters) {
    for (std::size_t at = 0; at < text.size();) {
      const CodePoint c = decode_at(text, at);
      if (c.value != kReplacement) counts.add(character_token(c.value));
      at += c.size;
    }
    return;
  }
  NormalizedText normal;
  std::vector<std::uint32_t> ends;
  std::string word;
  normalize(text, 0, options_.normalization, normal);
  const std::u32string_view all = normal.text;
  if (options_.kind == VocabularyKind::kWords) {
    segmenter_->cut(all, ends);
  } else {
    for (std::size_t i = 0; i < all.size(); ++i) {
      const bool last = i + 1 == all.size();
      if (last || is_separate(all[i]) || is_separate(all[i + 1]) ||
          is_whitespace(all[i]) != is_whitespace(all[i + 1])) {
        ends.push_back(static_cast<std::uint32_t>(i + 1));
      }
    }
  }
  std::size_t begin = 0;
  for (const std::uint32_t end : ends) {
    if (!is_whitespace(all[begin])) {
      word.clear();
      for (const char32_t c : all.substr(begin, end - begin)) append_utf8(word, c);
      counts.add(word);
    }
    begin = end;
  }
}

void VocabularyBuilder::merge(const Counts& counts) {
  counts_.merge(counts);
  counts_.prune(options_.max_words);
}

Vocabulary VocabularyBuilder::build() const {
  std::vector<std::string> tokens(special_tokens().begin(), special_tokens().end());
  const auto size = static_cast<std::size_t>(options_.size);
  if (options_.kind == VocabularyKind::kPieces) {
    train_pieces(by_count(counts_, 1), options_.min_count, size, tokens);
    return Vocabulary(std::move(tokens), "built vocabulary");
  }
  const auto add = [&](const Counted& more) {
    for (const auto& [token, count] : more) {
      if (tokens.size() < size &&
          std::ranges::find(special_tokens(), token) == special_tokens().end()) {
        tokens.push_back(token);
      }
    }
  };
  if (options_.kind == VocabularyKind::kCharacters) {
    add(by_count(counts_, options_.min_count));
  } else {
    const Counts characters = character_counts(counts_);
    add(by_count(characters, options_.min_count));
    Counted words = by_count(counts_, options_.min_count);
    std::erase_if(words, [&](const auto& word) { return characters.contains(word.first); });
    add(words);
  }
  return Vocabulary(std::move(tokens), "built vocabulary");
}

}  // namespace rotary::roformer
