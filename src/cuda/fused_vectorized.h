// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// Parameters of fused_vectorized and fused_block, the fastest of the fused kernels, and whether
// they take a launch: whole heads of 16-byte packs, a power of two of them, rotated by equal
// pairings with exact angles at integer positions; a RMS norm of each head in the order of a warp
// (sum_lanes 32), or none; and stores without computed scales. By a table fused_vectorized alone,
// and without stores.
#pragma once

#include <cstdint>

#include "cuda/fused_params.h"
#include "cuda/vectorized_params.h"

namespace rotary::internal::cuda {

inline constexpr int kFusedVectorizedOperands = 3;  // q, k and v
/// Lanes that share a head: a power of two up to a warp.
inline constexpr std::int32_t kMinFusedLanes = 4;
/// Warps into which a launch of fused_vectorized is split: some waves of all multiprocessors, so
/// that they end together.
inline constexpr std::int64_t kMaxFusedWarps = 30000;
/// Bytes that the first blocks prefetch while the previous launch drains.
inline constexpr std::int64_t kFusedPrefetch = 12 << 20;

/// One tensor. A warp handles a token, or a part of it, in steps of the heads that its lanes hold
/// at once.
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
  std::int32_t first_step = 0;  // of a token's steps
  std::int32_t end_step = 0;
  std::int8_t store = kNoStore;
  bool normalizes = false;
  bool rotates = true;
  bool has_float_weight = false;  // otherwise of the tensors' type
};

struct FusedVectorizedParams {
  VectorizedParams angles;  // its operands are not used
  FusedTileOperand operands[kFusedVectorizedOperands];
  std::int32_t part_steps = 1;     // of a warp
  std::int32_t rotated_steps = 0;  // steps before those of operands that are not rotated
  float eps = 0.0f;
  bool adds_one = false;
  bool rounds_before_weight = false;  // by a table only
  bool rounds_between = false;
  VectorizedTable table;  // unused for frequencies
  StoreParams stores[kStoresPerLaunch];
  SlotParams slots;
};

/// Grid: [tokens][batch][parts of a token]; `warps` of a block.
struct FusedVectorizedShape {
  std::uint32_t parts = 1;
  std::uint32_t warps = 1;
};

/// False where the kernel does not apply.
bool make_fused_vectorized(const FusedParams<SimpleParams>& p, FusedVectorizedParams& to) noexcept;
bool make_fused_vectorized(const FusedParams<TableParams>& p, FusedVectorizedParams& to) noexcept;

/// Of fused_vectorized, whose steps have `heads` heads in each thread. A token is split among
/// blocks while there are at most `max_warps` of them. The first blocks prefetch `prefetch_bytes`
/// while the previous launch drains.
FusedVectorizedShape shape_fused_vectorized(std::int32_t batch, std::int32_t heads,
                                            std::int64_t max_warps, std::int64_t prefetch_bytes,
                                            FusedVectorizedParams& to) noexcept;

/// Of fused_block, with at most `max_warps` warps in a block, whose threads have a part of `heads`
/// heads, `lanes` of them sharing one.
FusedVectorizedShape shape_fused_block(std::int32_t lanes, std::int32_t heads,
                                       std::int32_t max_warps, std::int64_t prefetch_bytes,
                                       FusedVectorizedParams& to) noexcept;

}  // namespace rotary::internal::cuda
