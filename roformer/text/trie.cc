// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

#include "roformer/text/trie.h"

#include <cstddef>
#include <utility>

namespace rotary::roformer {

Trie::Trie() : first_(0x10000, kNone), edges_(1024) {}

std::uint32_t Trie::insert(std::u32string_view word) {
  std::uint32_t node = kRoot;
  for (const char32_t c : word) {
    std::uint32_t next = child(node, c);
    if (next == kNone) {
      next = num_nodes_++;
      if (node == kRoot && c < first_.size()) {
        first_[c] = next;
      } else {
        if (2 * std::size_t{num_nodes_} > edges_.size()) grow();
        const std::uint64_t key = (std::uint64_t{node} + 1) << 21 | c;
        edges_[find_slot(key)] = {key, next};
      }
    }
    node = next;
  }
  return node;
}

std::uint32_t Trie::find(std::u32string_view word) const noexcept {
  std::uint32_t node = kRoot;
  for (const char32_t c : word) {
    node = child(node, c);
    if (node == kNone) break;
  }
  return node;
}

void Trie::grow() {
  std::vector<Edge> old(edges_.size() * 2);
  std::swap(old, edges_);
  for (const Edge& edge : old) {
    if (edge.key != 0) edges_[find_slot(edge.key)] = edge;
  }
}

}  // namespace rotary::roformer
