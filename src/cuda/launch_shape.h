// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// Memory layout and block shape of a launch, decided on the host from sizes alone. The constants
// were measured fastest on an H200 (docs/cuda.md).
#pragma once

#include "cuda/params.h"

namespace rotary::internal::cuda {

/// Memory layout of the pairs of a launch: vectorised (aligned 16-byte packs), or not.
enum class Layout : std::uint8_t {
  kHalf,         // vectorised, pairs (i, i + pairs) read and written
  kInterleaved,  // vectorised, pairs (2i, 2i + 1) read and written
  kMixed,        // vectorised, one pairing read and the other written
  kStrided,      // element by element
};

/// Block: [tokens][rows][fragments] threads, one row per head. Grid: [head_splits][batch][tiles of
/// tokens].
struct LaunchShape {
  int fragments = 1;
  int rows = 1;
  int tokens = 1;
  int head_splits = 1;  // blocks that share the heads of a token
};

inline int ceil_div(int a, int b) noexcept { return (a + b - 1) / b; }

inline bool is_in_place(const KernelParams& p) noexcept {
  return p.num_operands > 0 && p.operands[0].in == p.operands[0].out;
}

/// Whether the address and the strides are multiples of `bytes`.
bool is_aligned_to(const void* data, std::int64_t bytes, std::int64_t batch, std::int64_t token,
                   std::int64_t head) noexcept;

/// Whether the sizes fit one launch that holds frequencies for `max_pairs` pairs.
bool fits_launch(const KernelParams& p, int max_pairs) noexcept;

Layout layout_of(const KernelParams& p) noexcept;

/// At most `max_threads` per block. Heads are split over more blocks where one would be too large,
/// or where tokens are few; a block takes several tokens where it would be too small.
LaunchShape make_launch_shape(const KernelParams& p, int fragments, int max_threads) noexcept;

}  // namespace rotary::internal::cuda
