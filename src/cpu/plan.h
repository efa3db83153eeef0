// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// The plan of a CPU call: tasks, the orders of tokens and of results, store modes. Made once per
// call, the same for every target.
#pragma once

#include <array>
#include <cstdint>

#include "engine/kernel.h"
#include "rotary/operands.h"
#include "rotary/threads.h"
#include "rotary/write_order.h"

namespace rotary::internal {

/// How the results of an operand are stored.
enum class StoreMode : std::uint8_t {
  kCached,    // ordinary stores
  kStreamed,  // non-temporal stores: every head is aligned to the widest vector
  kCombined,  // non-temporal stores of whole cache lines, after write combining
};

/// The order in which a call visits its tokens.
enum class TokenOrder : std::uint8_t {
  kBatchOuter,  // all tokens of a batch row, then the next row
  kTokenOuter,  // a token of all batch rows, which share its angles, then the next token
};

/// Size limit of a head for StoreMode::kCombined: a few lines less than a quarter of the smallest
/// first-level cache.
inline constexpr std::int64_t kMaxCombinedBytes = 8192 - 128;

/// Bytes combined at a time where heads are smaller. More would occupy all fill buffers of the
/// core, which loads need too.
inline constexpr std::int64_t kBurstBytes = 1024;

struct CpuPlan {
  std::int64_t num_tokens = 0;  // of all batch rows
  int tasks = 1;                // into which the tokens are split
  TokenOrder token_order = TokenOrder::kBatchOuter;
  bool uses_float = false;  // which arithmetics the operands need
  bool uses_double = false;
  /// Tokens of one operand that are rotated before the same tokens of the next.
  std::int64_t block_tokens = 1;
  std::array<HeadOrder, kMaxOperands> head_orders{};  // of each operand; never kAuto
  std::array<StoreMode, kMaxOperands> store_modes{};  // of each operand
  bool has_stream_stores = false;
  bool uses_armv86 = false;  // has_armv86(), asked once
};

CpuPlan make_cpu_plan(const RotateParams& params, const Threads& threads) noexcept;

}  // namespace rotary::internal
