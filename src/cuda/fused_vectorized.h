// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// Parameters of fused_vectorized, the fastest of the fused kernels, and whether it takes a launch:
// whole heads of 16-byte packs, a power of two of them, rotated by equal pairings with exact angles
// at integer positions; a RMS norm of each head in the order of a warp (sum_lanes 32), or none; and
// stores without computed scales.
#pragma once

#include <cstdint>

#include "cuda/fused_params.h"
#include "cuda/vectorized_params.h"

namespace rotary::internal::cuda {

inline constexpr int kFusedVectorizedOperands = 3;  // q, k and v
inline constexpr std::uint32_t kNoTile = 0xffffffffu;

/// One tensor, and how blocks share it. A block has threads for `slots` times kHeads heads: those
/// of `tokens` tokens, or a part of one token's.
struct FusedTileOperand {
  const char* in = nullptr;
  char* out = nullptr;  // unused for stores
  const void* weight = nullptr;
  // In packs, as VectorizedOperand.
  std::int32_t in_batch = 0;
  std::int32_t in_token = 0;
  std::int32_t in_head = 0;
  std::int32_t out_batch = 0;
  std::int32_t out_token = 0;
  std::int32_t out_head = 0;
  std::int32_t heads = 0;
  std::uint32_t tokens = 1;  // of a block
  std::uint32_t groups = 1;  // of kHeads heads of a token, in a block
  std::uint32_t splits = 1;  // blocks that share a token
  /// slot / groups is slot * group_factor / 65536.
  std::uint32_t group_factor = 65536;
  std::int8_t store = kNoStore;
  bool normalizes = false;
  bool rotates = true;
  bool has_float_weight = false;  // otherwise of the tensors' type
};

struct FusedVectorizedParams {
  VectorizedParams angles;  // its operands are not used
  FusedTileOperand operands[kFusedVectorizedOperands];
  /// Of the grid, for each operand; kNoTile for absent ones.
  std::uint32_t first_tile[kFusedVectorizedOperands] = {0, kNoTile, kNoTile};
  std::uint32_t pair_shift = 0;  // log2 of the pairs
  float eps = 0.0f;
  float reciprocal_size = 1.0f;  // of head_dim, a power of two
  bool adds_one = false;
  bool rounds_between = false;
  StoreParams stores[kStoresPerLaunch];
  SlotParams slots;
};

struct FusedVectorizedShape {
  std::uint32_t tiles = 0;
  std::uint32_t slots = 0;  // blockDim.y
  std::uint32_t shared_bytes = 0;
};

/// False where the kernel does not apply.
bool make_fused_vectorized(const FusedParams<SimpleParams>& p, FusedVectorizedParams& to) noexcept;

/// Blocks of about `max_threads` threads with `heads` heads per thread and at most `max_tokens`
/// tokens.
FusedVectorizedShape shape_fused_vectorized(std::int32_t heads, std::int32_t max_threads,
                                            std::int32_t max_tokens,
                                            FusedVectorizedParams& to) noexcept;

}  // namespace rotary::internal::cuda
