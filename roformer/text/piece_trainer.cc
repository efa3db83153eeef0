// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

#include "roformer/text/piece_trainer.h"

#include <algorithm>
#include <queue>
#include <string_view>
#include <unordered_map>
#include <unordered_set>

#include "roformer/text/hash.h"
#include "roformer/text/unicode.h"

namespace rotary::roformer {
namespace {

constexpr std::uint32_t kNoPiece = 0xFFFFFFFF;

struct Word {
  std::vector<std::uint32_t> pieces;
  std::uint64_t count;
};

/// Two adjacent pieces, as one integer.
using Pair = std::uint64_t;

constexpr Pair pair_of(std::uint32_t left, std::uint32_t right) noexcept {
  return Pair{left} << 32 | right;
}

struct PairHash {
  std::size_t operator()(Pair pair) const noexcept { return mix(pair); }
};

struct Candidate {
  std::uint64_t count;
  Pair pair;

  /// The most frequent pair is at the top of the queue.
  friend bool operator<(const Candidate& a, const Candidate& b) noexcept {
    return a.count != b.count ? a.count < b.count : a.pair > b.pair;
  }
};

class PieceTrainer {
 public:
  PieceTrainer(const std::vector<std::pair<std::string, std::uint64_t>>& words,
               std::uint64_t min_count, std::size_t size, std::vector<std::string>& tokens)
      : min_count_(min_count), size_(size), tokens_(tokens) {
    add_alphabet(words);
    for (const auto& [text, count] : words) add_word(text, count);
    for (std::uint32_t i = 0; i < words_.size(); ++i) count_pairs(i);
    for (const auto& [pair, count] : counts_) enqueue(pair);
  }

  void run() {
    while (tokens_.size() < size_ && !queue_.empty()) {
      const Candidate best = queue_.top();
      queue_.pop();
      // The count may have fallen since it was queued: queue it again.
      if (const std::uint64_t now = counts_[best.pair]; now != best.count) {
        if (now < best.count) enqueue(best.pair);
        continue;
      }
      merge(best.pair);
    }
  }

 private:
  static std::vector<std::string> characters(std::string_view text) {
    std::vector<std::string> out;
    for (std::size_t at = 0; at < text.size();) {
      const CodePoint c = decode_at(text, at);
      out.emplace_back(at > 0 ? "##" : "").append(text.substr(at, c.size));
      at += c.size;
    }
    return out;
  }

  void add_alphabet(const std::vector<std::pair<std::string, std::uint64_t>>& words) {
    std::unordered_map<std::string, std::uint64_t> counts;
    for (const auto& [text, count] : words) {
      for (const std::string& piece : characters(text)) counts[piece] += count;
    }
    std::vector<std::pair<std::string, std::uint64_t>> sorted(counts.begin(), counts.end());
    std::ranges::sort(sorted, [](const auto& a, const auto& b) {
      return a.second != b.second ? a.second > b.second : a.first < b.first;
    });
    for (const auto& [piece, count] : sorted) {
      if (count >= min_count_ && tokens_.size() < size_) add_piece(piece);
    }
  }

  /// The id of the piece, which is that of its token.
  std::uint32_t add_piece(const std::string& text) {
    const auto [at, added] = ids_.emplace(text, static_cast<std::uint32_t>(tokens_.size()));
    if (added) tokens_.push_back(text);
    return at->second;
  }

  void add_word(std::string_view text, std::uint64_t count) {
    Word word{{}, count};
    for (const std::string& piece : characters(text)) {
      const auto at = ids_.find(piece);
      word.pieces.push_back(at != ids_.end() ? at->second : kNoPiece);
    }
    if (word.pieces.size() > 1) words_.push_back(std::move(word));
  }

  void count_pairs(std::uint32_t index) {
    const Word& word = words_[index];
    for (std::size_t i = 0; i + 1 < word.pieces.size(); ++i) {
      if (word.pieces[i] == kNoPiece || word.pieces[i + 1] == kNoPiece) continue;
      const Pair pair = pair_of(word.pieces[i], word.pieces[i + 1]);
      counts_[pair] += word.count;
      words_of_pair_[pair].insert(index);
    }
  }

  void enqueue(Pair pair) {
    const std::uint64_t count = counts_[pair];
    if (count >= min_count_ && count > 0) queue_.push({count, pair});
  }

  void merge(Pair pair) {
    const auto left = static_cast<std::uint32_t>(pair >> 32);
    const auto right = static_cast<std::uint32_t>(pair);
    // Pieces after the first begin with "##". Other pairs may give the same text.
    const std::uint32_t merged = add_piece(tokens_[left] + tokens_[right].substr(2));
    std::unordered_set<Pair, PairHash> new_pairs;
    for (const std::uint32_t index : words_of_pair_[pair]) {
      Word& word = words_[index];
      for_each_pair(word, [&](Pair old) { counts_[old] -= word.count; });
      std::vector<std::uint32_t> pieces;
      for (std::size_t i = 0; i < word.pieces.size(); ++i) {
        const bool here =
            i + 1 < word.pieces.size() && word.pieces[i] == left && word.pieces[i + 1] == right;
        pieces.push_back(here ? merged : word.pieces[i]);
        i += here ? 1 : 0;
      }
      word.pieces = std::move(pieces);
      for_each_pair(word, [&](Pair made) {
        counts_[made] += word.count;
        words_of_pair_[made].insert(index);
        if (made >> 32 == merged || static_cast<std::uint32_t>(made) == merged)
          new_pairs.insert(made);
      });
    }
    words_of_pair_.erase(pair);
    for (const Pair made : new_pairs) enqueue(made);
  }

  template <typename Visit>
  static void for_each_pair(const Word& word, const Visit& visit) {
    for (std::size_t i = 0; i + 1 < word.pieces.size(); ++i) {
      if (word.pieces[i] == kNoPiece || word.pieces[i + 1] == kNoPiece) continue;
      visit(pair_of(word.pieces[i], word.pieces[i + 1]));
    }
  }

  std::uint64_t min_count_;
  std::size_t size_;
  std::vector<std::string>& tokens_;
  std::unordered_map<std::string, std::uint32_t> ids_;
  std::vector<Word> words_;
  std::unordered_map<Pair, std::uint64_t, PairHash> counts_;
  /// Words that have a pair, or had it before.
  std::unordered_map<Pair, std::unordered_set<std::uint32_t>, PairHash> words_of_pair_;
  std::priority_queue<Candidate> queue_;
};

}  // namespace

void train_pieces(const std::vector<std::pair<std::string, std::uint64_t>>& words,
                  std::uint64_t min_count, std::size_t size, std::vector<std::string>& tokens) {
  PieceTrainer(words, min_count, size, tokens).run();
}

}  // namespace rotary::roformer
