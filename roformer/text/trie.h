// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// A trie over code points. Thread-safe once built.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

namespace rotary::roformer {

/// Nodes are numbered in order of insertion; 0 is the root. The owner keeps the values of nodes in
/// arrays of num_nodes() elements.
class Trie {
 public:
  static constexpr std::uint32_t kRoot = 0;
  static constexpr std::uint32_t kNone = 0xFFFFFFFF;

  Trie();
  /// The node of the word, inserted if missing.
  std::uint32_t insert(std::u32string_view word);
  /// The node of the word, or kNone.
  std::uint32_t find(std::u32string_view word) const noexcept;
  /// The child by that character, or kNone.
  std::uint32_t child(std::uint32_t node, char32_t c) const noexcept;

  std::size_t num_nodes() const noexcept { return num_nodes_; }

 private:
  /// An edge; the key combines node and code point, 0 is an empty slot.
  struct Edge {
    std::uint64_t key = 0;
    std::uint32_t child = 0;
  };

  std::size_t find_slot(std::uint64_t key) const noexcept;
  void grow();

  /// Children of the root below U+10000, the most frequent lookups.
  std::vector<std::uint32_t> first_;
  /// All other edges: a hash table with open addressing, at most half full, a power of two in size.
  std::vector<Edge> edges_;
  std::uint32_t num_nodes_ = 1;
};

inline std::size_t Trie::find_slot(std::uint64_t key) const noexcept {
  const std::size_t mask = edges_.size() - 1;
  // The multiplier of Knuth's multiplicative hashing, 2^64 / golden ratio.
  std::size_t at = static_cast<std::size_t>(key * 0x9E3779B97F4A7C15u >> 32) & mask;
  while (edges_[at].key != 0 && edges_[at].key != key) at = (at + 1) & mask;
  return at;
}

inline std::uint32_t Trie::child(std::uint32_t node, char32_t c) const noexcept {
  if (node == kRoot && c < first_.size()) return first_[c];
  const Edge& edge = edges_[find_slot((std::uint64_t{node} + 1) << 21 | c)];
  return edge.key != 0 ? edge.child : kNone;
}

}  // namespace rotary::roformer
