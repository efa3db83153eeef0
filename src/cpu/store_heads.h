// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// Heads of some tokens into a store, and back.
#pragma once

#include <cstdint>

#include "cpu/store_block.h"

namespace rotary::internal {

/// The place of a token in a store.
struct StoredToken {
  StoredToken(const HeadStore& store, std::int64_t slot) noexcept
      : block(slot / store.block_size),
        row(slot % store.block_size),
        offset(block * store.block_stride + row * store.token_stride) {}

  /// The computed scales of a head; null if there are none.
  float* computed(const HeadStore& store, std::int64_t head) const noexcept {
    if (store.computed == nullptr) return nullptr;
    return store.computed + block * store.computed_block_stride +
           row * store.computed_token_stride + head * store.computed_head_stride;
  }

  std::int64_t block, row;
  std::int64_t offset;  // of its first head, in elements
};

void store_tokens(const StoreBlock& block);

/// block.step is 1, and the heads of a token are contiguous. Tokens without a slot become zeros.
void load_tokens(const StoreBlock& block);

}  // namespace rotary::internal
