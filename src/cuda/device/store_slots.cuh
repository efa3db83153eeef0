// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// Where a cache stores a token. What lies on the device cannot be checked by the host: a slot
// outside of the cache counts as none.
#pragma once

#include <cstdint>

#include "cuda/device/positions.cuh"
#include "cuda/fused_params.h"

namespace rotary::internal::cuda {

inline constexpr std::int64_t kNoSlot = -1;

/// The block of a slot, and its row in it. Divisions of 64 bits would take as long as a rotation.
struct BlockAndRow {
  std::int64_t block;
  std::int64_t row;
};
__device__ __forceinline__ BlockAndRow divide_slot(std::int64_t slot, std::int64_t block_size,
                                                   std::int32_t block_shift) {
  if (block_shift >= 0) return {slot >> block_shift, slot & (block_size - 1)};
  const std::int64_t block = slot / block_size;
  return {block, slot - block * block_size};
}

/// The slot of a token of the launch; kNoSlot if it is not stored.
__device__ __forceinline__ std::int64_t slot_of(const SlotParams& p, std::int64_t batch,
                                                std::int64_t token) {
  const std::int64_t rank = p.rank + batch * p.rank_batch + token;
  if (rank >= p.count) return kNoSlot;
  std::int64_t slot =
      load_integer(p.indices, p.type, batch * p.batch_stride + token * p.token_stride);
  if (slot < 0) return kNoSlot;
  if (p.table != nullptr) {
    const std::int64_t sequence =
        p.sequences == nullptr
            ? rank / p.row_tokens
            : load_integer(p.sequences, p.sequences_type,
                           batch * p.sequences_batch + token * p.sequences_token);
    const BlockAndRow page = divide_slot(slot, p.block_size, p.block_shift);
    if (sequence < 0 || sequence >= p.table_rows || page.block >= p.table_columns) return kNoSlot;
    const std::int64_t block =
        load_integer(p.table, p.table_type, sequence * p.table_row + page.block * p.table_column);
    if (block < 0) return kNoSlot;
    slot = block * p.block_size + page.row;
  }
  return slot < p.num_slots ? slot : kNoSlot;
}

/// A token in a store.
struct StoredToken {
  char* data;       // of its first head
  float* computed;  // of its first head; null if there are none

  __device__ __forceinline__ StoredToken(const StoreParams& p, std::int64_t slot) {
    const BlockAndRow at = divide_slot(slot, p.block_size, p.block_shift);
    data = p.data + at.block * p.block_stride + at.row * p.token_stride;
    computed = p.computed == nullptr
                   ? nullptr
                   : p.computed + at.block * p.computed_block + at.row * p.computed_token;
  }
};

}  // namespace rotary::internal::cuda
