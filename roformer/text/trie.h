// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// Words as paths of code points. Built once, then read by any number of threads.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

namespace rotary::roformer {

/// Nodes are numbered from 0, the root, in the order in which they were made; what a node means is
/// kept by the owner, in arrays of num_nodes() elements.
class Trie {
 public:
  static constexpr std::uint32_t kRoot = 0;
  static constexpr std::uint32_t kNone = 0xFFFFFFFF;

  Trie();
  /// The node of the word, made where it is missing.
  std::uint32_t insert(std::u32string_view word);
  /// The node of the word, or kNone.
  std::uint32_t find(std::u32string_view word) const noexcept;
  /// One step down, or kNone.
  std::uint32_t child(std::uint32_t node, char32_t c) const noexcept;

  std::size_t num_nodes() const noexcept { return num_nodes_; }

 private:
  /// One edge; the key holds node and code point, and 0 is a free place.
  struct Edge {
    std::uint64_t key = 0;
    std::uint32_t child = 0;
  };

  std::size_t place(std::uint64_t key) const noexcept;
  void grow();

  /// Children of the root below U+10000: most steps begin there.
  std::vector<std::uint32_t> first_;
  /// All other edges: open addressing, at most half full, a power of two.
  std::vector<Edge> edges_;
  std::uint32_t num_nodes_ = 1;
};

inline std::size_t Trie::place(std::uint64_t key) const noexcept {
  const std::size_t mask = edges_.size() - 1;
  // The multiplier of Knuth's multiplicative hashing, 2^64 / golden ratio.
  std::size_t at = static_cast<std::size_t>(key * 0x9E3779B97F4A7C15u >> 32) & mask;
  while (edges_[at].key != 0 && edges_[at].key != key) at = (at + 1) & mask;
  return at;
}

inline std::uint32_t Trie::child(std::uint32_t node, char32_t c) const noexcept {
  if (node == kRoot && c < first_.size()) return first_[c];
  const Edge& edge = edges_[place((std::uint64_t{node} + 1) << 21 | c)];
  return edge.key != 0 ? edge.child : kNone;
}

}  // namespace rotary::roformer
