// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// Parameters of the tuned kernels: SimpleParams restricted to two operands of 16-byte packs whose
// strides fit 32 bits, and for rotate_vectorized a shape in which a block handles one operand.
// Fewer parameter bytes, and far fewer instructions of address arithmetic.
#pragma once

#include <cstdint>

#include "cuda/launch_shape.h"
#include "cuda/params.h"

namespace rotary::internal::cuda {

/// Strides are in packs: 16 bytes, or what they become in 8-bit output. An address is
/// base + 16 * (32-bit offset): tensors up to 16 GB.
struct VectorizedOperand {
  const char* in;  // [batch, tokens, heads, packs of a head]
  char* out;       // [batch, tokens, heads, packs of a head]
  std::int32_t in_batch;
  std::int32_t in_token;
  std::int32_t in_head;
  std::int32_t out_batch;
  std::int32_t out_token;
  std::int32_t out_head;
  std::int32_t heads;
  // threadIdx.z encodes the token in the tile (lower bits) and the head group (upper bits).
  std::int32_t tokens;      // per block
  std::int32_t token_mask;  // of threadIdx.z: the lower bits
  std::int32_t group_shift;
  std::int32_t groups;
  std::int32_t row_threads;  // threads that compute the rotation row of a token
  const float* out_scale;
};

/// PositionParams with 32-bit strides, in elements.
struct VectorizedPositions {
  std::int64_t start;
  const char* ids;  // [axes, batch, tokens]; or null
  std::int32_t step;
  std::int32_t axis_stride;
  std::int32_t batch_stride;
  std::int32_t token_stride;
  const void* boundaries;  // [sequences + 1]; or null
  const void* first;       // [sequences]; or null
  std::int32_t sequences;
  bool is_int32;  // ids, boundaries and first; otherwise int64
};

struct VectorizedParams {
  VectorizedOperand operands[2];
  std::uint32_t operand0_tiles;  // rotate_vectorized: token tiles of operand 0, which come first
  std::int32_t tokens;
  std::int32_t fragments;    // per head: blockDim.x
  std::int32_t first_pack;   // packs from the beginning of a head to its first fragment
  std::int32_t pack_stride;  // bytes from the first pack of a fragment to its second
  std::int32_t pair_count;
  std::int32_t row_size;  // floats of the cosines (and of the sines) of a rotation row
  VectorizedPositions positions;
  std::int32_t axes;
  float cos_magnitude;
  float sin_magnitude;
  std::int32_t pass_before;       // pass-through packs before the rotary slice
  std::int32_t pass_count;        // pass-through packs in all
  std::int32_t pass_skip;         // packs of the rotary slice, between them
  std::uint32_t prefetch_blocks;  // blocks that prefetch while the previous launch drains
  bool overlaps;
  bool e5m2;                                 // 8-bit output: E5M2, otherwise E4M3
  std::uint64_t fractions[kMaxSimplePairs];  // [pair_count]
  std::uint8_t axis_of[kMaxSimplePairs];     // [pair_count], where axes > 1
};

/// cos and sin of a table's rows in place of frequencies.
struct VectorizedTable : TableSource {
  bool conjugates = false;
};

/// Strides of an operand in packs; false where they do not fit 32 bits.
bool fill_vectorized_operand(const KernelParams& p, const OperandParams& o,
                             VectorizedOperand& to) noexcept;

/// All but the operands; false where positions do not fit.
bool fill_vectorized_angles(const SimpleParams& p, Layout layout, VectorizedParams& to) noexcept;

/// Likewise, without frequencies; false also for tables of float64 and the inverse.
bool fill_vectorized_table(const TableParams& p, Layout layout, VectorizedParams& to,
                           VectorizedTable& table) noexcept;

/// False where the tuned kernels do not apply. `layout` is kHalf or kInterleaved.
bool make_vectorized_params(const SimpleParams& p, Layout layout, VectorizedParams& to) noexcept;

/// Changes parameters of kHalf into those of ShuffleFragment; false where the packs of a head do
/// not fit a warp.
bool use_warp_shuffle(const SimpleParams& p, VectorizedParams& to) noexcept;

/// Block: [depth][rows][fragments] threads. Grid: [head_splits][batch][tiles].
struct VectorizedShape {
  std::int32_t rows = 1;
  std::int32_t depth = 1;
  std::int32_t head_splits = 1;
  std::int64_t tiles = 0;
};

/// Shape of rotate_vectorized: `heads` heads per thread, one operand per block. blockDim.y covers
/// the heads of the operand with fewer heads. A block handles `tokens` (a power of two) tokens of
/// the operand with more heads, and correspondingly more of the other. 96 to `max_threads` threads.
VectorizedShape shape_vectorized(const SimpleParams& p, int heads, int max_threads, int tokens,
                                 VectorizedParams& to) noexcept;

/// Shape of rotate_tokens: heads of one token per block, from either operand, in fragments of
/// `fragment_packs` packs; at most `max_packs` packs per block unless one head has more.
VectorizedShape shape_tokens(const SimpleParams& p, int fragment_packs, int max_packs,
                             const VectorizedParams& vectorized) noexcept;

}  // namespace rotary::internal::cuda
