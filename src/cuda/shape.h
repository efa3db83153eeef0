// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// How a launch is laid out: decided on the host from sizes alone. The numbers are those that were
// fastest on an H200 (docs/cuda.md).
#pragma once

#include "cuda/params.h"

namespace rotary::internal::cuda {

/// How the pairs of a launch lie in memory.
enum class Layout : std::uint8_t {
  kHalf,        // packs of 16 bytes, pairs (i, i + pairs), read and written
  kNeighbours,  // packs of 16 bytes, pairs (2i, 2i + 1), read and written
  kMixed,       // packs of 16 bytes, one pairing read and the other written
  kAnywhere,    // element by element
};

/// A block is [tokens][rows][units] threads; the grid is [shares][batch][tiles of tokens].
struct Shape {
  int heads = 1;  // of a thread
  int units = 1;
  int rows = 1;
  int tokens = 1;
  int shares = 1;
};

/// Whether the sizes fit one launch that holds frequencies for `most_pairs`.
bool fits_launch(const RotateParams& p, int most_pairs) noexcept;

Layout layout_of(const RotateParams& p) noexcept;

/// `heads` of a thread, at most `most_threads` in a block. `shares` of the heads and `tokens` of a
/// block are wishes: more shares and fewer tokens where the block would be too large, more tokens
/// where it would be too small.
Shape make_shape(const RotateParams& p, int units, int heads, int most_threads, int shares,
                 int tokens) noexcept;

}  // namespace rotary::internal::cuda
