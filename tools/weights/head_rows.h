// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// Rows of a projection in another pairing. The elements of a head are rows of the weight
// [num_heads * head_dim, hidden_size]; of a head of 8 with 6 rotary dims (pair numbers):
//
//   kHalf         [0 1 2 0 1 2 - -]
//   kInterleaved  [0 0 1 1 2 2 - -]
//
// Rows of q and of k are reordered alike, so that their scores stay the same.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "rotary/pairing.h"

namespace rotary::cli {

/// Heads at equal distances in the rows of a tensor.
struct HeadRows {
  std::int64_t first_row = 0;
  std::int64_t num_heads = 0;
  /// Rows from one head to the next; at least those of a head.
  std::int64_t stride = 0;
  /// The rotary slice of a head: its first row, counted from that of the head, and its size.
  std::int64_t rotary_offset = 0;
  std::int64_t rotary_dim = 0;
};

/// For each row of the result, the row of the tensor that moves there. The heads lie within
/// `num_rows`, which the vector has the size of.
std::vector<std::int64_t> row_sources(std::int64_t num_rows, std::span<const HeadRows> heads,
                                      Pairing from, Pairing to);

}  // namespace rotary::cli
