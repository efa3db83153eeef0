// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// A call cut into parts that one launch each takes: operands that go together, and no more batch
// rows, tokens and heads than a grid has room for. Nearly every call is one part.
#pragma once

#include <cstdint>
#include <span>

#include "cuda/params.h"
#include "rope/kernel.h"

namespace rotary::internal::cuda {

/// Batch rows and tokens of one launch. One token in each of many batch rows, a decoding step, is
/// turned round: the kernel's tokens are then the batch rows.
struct Rows {
  std::int64_t first_batch = 0;
  std::int64_t batch = 0;
  std::int64_t first_token = 0;
  std::int64_t tokens = 0;
  bool batch_as_tokens = false;
};

/// Calls `launch(rows)` for batch x tokens; stops at the first result that is not 0 and returns it.
template <typename Launch>
auto for_each_rows(std::int64_t batch, std::int64_t tokens, bool may_turn, const Launch& launch) {
  const bool turns = may_turn && tokens == 1 && batch > 1;
  const std::int64_t all_batch = turns ? 1 : batch;
  const std::int64_t all_tokens = turns ? batch : tokens;
  Rows rows{.batch_as_tokens = turns};
  decltype(launch(rows)) result{};
  for (; rows.first_batch < all_batch; rows.first_batch += rows.batch) {
    rows.batch = all_batch - rows.first_batch;
    if (rows.batch > kBatchPerLaunch) rows.batch = kBatchPerLaunch;
    for (rows.first_token = 0; rows.first_token < all_tokens; rows.first_token += rows.tokens) {
      rows.tokens = all_tokens - rows.first_token;
      if (rows.tokens > kTokensPerLaunch) rows.tokens = kTokensPerLaunch;
      result = launch(rows);
      if (result != decltype(result){}) return result;
    }
  }
  return result;
}

/// Some heads of an operand.
struct HeadSlice {
  const Operand* operand = nullptr;
  std::int64_t first_head = 0;
  std::int64_t heads = 0;
};

/// Operands of one launch: of one type, written as one type, all in place or none.
struct Group {
  HeadSlice slices[kOperandsPerLaunch];
  int count = 0;
};

inline bool is_in_place(const Operand& x) noexcept { return x.in.data == x.out.data; }

/// Goes through the operands of a call, group by group.
class Groups {
 public:
  explicit Groups(std::span<const Operand> operands) noexcept : operands_(operands) {}
  /// False when no heads are left.
  bool next(Group& group) noexcept;

 private:
  std::span<const Operand> operands_;
  std::int64_t done_[kMaxOperands] = {};  // heads
};

struct PairRange {
  std::int64_t first = 0;
  std::int64_t count = 0;
};

}  // namespace rotary::internal::cuda
