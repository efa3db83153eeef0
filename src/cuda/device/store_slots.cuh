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
    const std::int64_t page = slot / p.block_size;
    if (sequence < 0 || sequence >= p.table_rows || page >= p.table_columns) return kNoSlot;
    const std::int64_t block =
        load_integer(p.table, p.table_type, sequence * p.table_row + page * p.table_column);
    if (block < 0) return kNoSlot;
    slot = block * p.block_size + slot % p.block_size;
  }
  return slot < p.num_slots ? slot : kNoSlot;
}

/// A token in a store.
struct StoredToken {
  char* data;       // of its first head
  float* computed;  // of its first head; null if there are none

  __device__ __forceinline__ StoredToken(const StoreParams& p, std::int64_t slot) {
    const std::int64_t block = slot / p.block_size;
    const std::int64_t row = slot - block * p.block_size;
    data = p.data + block * p.block_stride + row * p.token_stride;
    computed = p.computed == nullptr
                   ? nullptr
                   : p.computed + block * p.computed_block + row * p.computed_token;
  }
};

}  // namespace rotary::internal::cuda
