// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// The arguments of the kernels that store heads and load stored ones, the same for all targets.
#pragma once

#include <cstdint>

#include "engine/store_kernel.h"
#include "rotary/tensor.h"

namespace rotary::internal {

/// Heads of some tokens in memory, and the store. Strides count elements; `step` is that of the
/// elements of a head.
struct StoreBlock {
  const HeadStore& store;
  /// Where the heads are; load_tokens() writes to it, with a step of 1, in the store's type or,
  /// where that is quantised, in float32.
  void* heads;
  DType type;
  std::int64_t token_stride, head_stride, step;
  const std::int64_t* slots;  // of each token, -1: none; null: first_slot and on
  std::int64_t first_slot;
  std::int64_t tokens;

  std::int64_t slot(std::int64_t t) const noexcept {
    return slots != nullptr ? slots[t] : first_slot + t;
  }
};

}  // namespace rotary::internal
