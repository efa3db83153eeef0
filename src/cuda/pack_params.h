// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// What the tuned kernels are told: SimpleParams cut down to two operands whose elements lie in
// packs of 16 bytes and whose strides fit 32 bits, and for rotate_packs a shape in which a block
// keeps to one operand. Less to send, and far fewer instructions to find a head.
#pragma once

#include <cstdint>

#include "cuda/params.h"
#include "cuda/shape.h"

namespace rotary::internal::cuda {

/// Strides count packs: 16 bytes, or what becomes of them in 8-bit results. An address is base + 16
/// * (32-bit offset): tensors up to 16 GB.
struct PackOperand {
  const char* in;  // [batch, tokens, heads, packs of a head]
  char* out;       // [batch, tokens, heads, packs of a head]
  std::int32_t in_batch;
  std::int32_t in_token;
  std::int32_t in_head;
  std::int32_t out_batch;
  std::int32_t out_token;
  std::int32_t out_head;
  std::int32_t heads;
  // How the z of a block's threads is spent: its lower bits count tokens, the others groups of
  // heads.
  std::int32_t tokens;      // of a block
  std::int32_t token_mask;  // of the lower bits
  std::int32_t group_shift;
  std::int32_t groups;
  std::int32_t threads;  // that make the row of a token
  const float* out_scale;
};

/// PositionParams with 32-bit strides, in elements. `narrow`: integers are int32.
struct PackPositions {
  std::int64_t start;
  const char* ids;  // [axes, batch, tokens]; or null
  std::int32_t step;
  std::int32_t axis_stride;
  std::int32_t batch_stride;
  std::int32_t token_stride;
  const void* boundaries;  // [sequences + 1]; or null
  const void* first;       // [sequences]; or null
  std::int32_t sequences;
  bool narrow;
};

struct PackParams {
  PackOperand operands[2];
  std::uint32_t first_tiles;  // rotate_packs: blocks of operand 0 come first
  std::int32_t tokens;
  std::int32_t units;     // of a head: the block's x
  std::int32_t place;     // packs from a head's beginning to its first unit
  std::int32_t distance;  // bytes from the first pack of a unit to its second
  std::int32_t pair_count;
  std::int32_t row_size;  // floats from row to row in shared memory
  PackPositions positions;
  std::int32_t axes;
  float cos_size;
  float sin_size;
  std::int32_t rest_before;    // packs to be copied: before the rotary slice,
  std::int32_t rest_count;     // in all,
  std::int32_t rest_skip;      // and packs of the slice between
  std::uint32_t first_blocks;  // that start while the launch before ends
  bool overlaps;
  bool e5m2;                              // which 8-bit type results have
  std::uint64_t fractions[kSimplePairs];  // [pair_count]
  std::uint8_t axis_of[kSimplePairs];     // [pair_count], where axes > 1
};

/// False where the tuned kernels do not reach. `layout` is kHalf or kNeighbours.
bool make_pack_params(const SimpleParams& p, Layout layout, PackParams& to) noexcept;

/// Turns parameters of kHalf into those of halves exchanged between lanes; false where the packs of
/// a head do not fit.
bool make_exchanged(const SimpleParams& p, PackParams& to) noexcept;

/// A block is [depth][rows][units] threads; the grid is [shares][batch][tiles].
struct PackShape {
  std::int32_t rows = 1;
  std::int32_t depth = 1;
  std::int32_t shares = 1;
  std::int64_t tiles = 0;
};

/// Lays out blocks of which each takes `heads` heads a thread of one operand: of the operand with
/// fewer heads all of them, of the other as many; `tokens` (a power of two) of the operand with
/// more heads, of the other the more. At least 96 threads in a block, at most `most_threads`.
PackShape shape_packs(const SimpleParams& p, int heads, int most_threads, int tokens,
                      PackParams& to) noexcept;

/// Lays out blocks of which each takes heads of one token, whichever operand they are of: units of
/// `unit_packs` packs, at most `most_packs` in a block unless one head has more.
PackShape shape_tokens(const SimpleParams& p, int unit_packs, int most_packs,
                       const PackParams& packs) noexcept;

}  // namespace rotary::internal::cuda
