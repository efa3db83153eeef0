// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// How a call is carried out: decided once, the same for every target.
#pragma once

#include <array>
#include <cstdint>

#include "rope/kernel.h"
#include "rotary/operands.h"
#include "rotary/threads.h"

namespace rotary::internal {

/// Whether the tensors of a call are likely in the caches near a core, or come from memory.
enum class Locality : std::uint8_t { kNear, kFar };

/// How an operand's result goes to memory.
enum class Delivery : std::uint8_t {
  kCached,    // by ordinary stores
  kStreamed,  // past the caches: every head begins at a multiple of the widest vector
  kStaged,    // past the caches in whole lines, which are put together near the core first
};

/// Most bytes of a head that is staged: some lines less than a quarter of the smallest first-level
/// cache.
inline constexpr std::int64_t kStageBytes = 8192 - 128;

/// What is put together at a time, where heads are smaller. More at once would take all the buffers
/// between core and memory from the loads.
inline constexpr std::int64_t kBurstBytes = 1024;

/// What is wanted of a row besides [c0 c1 ...] and [s0 s1 ...].
enum class RowForm : std::uint8_t {
  kPlain,
  kSpread,  // [c0 c0 c1 c1 ...] and [-s0 s0 -s1 s1 ...]
  kSorted,  // even pairs, then odd ones
};

struct Plan {
  std::int64_t rows = 0;  // batch * tokens
  int tasks = 1;          // parts into which the rows are split
  /// Row r is token r / batch rather than token r % tokens: batch rows share their angles.
  bool tokens_first = false;
  bool uses_float = false;  // which arithmetics the operands need
  bool uses_double = false;
  RowForm form = RowForm::kPlain;
  Locality locality = Locality::kFar;
  std::array<Delivery, kMaxOperands> delivery{};  // of each operand
  bool streams_any = false;
};

Plan make_plan(const Job& job, const Threads& threads) noexcept;

}  // namespace rotary::internal
