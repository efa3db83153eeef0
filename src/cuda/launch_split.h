// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// Splits a call into launches: operands of the same types, and no more batch rows, tokens and heads
// than a grid can have. Nearly every call is one launch.
#pragma once

#include <cstdint>
#include <span>

#include "cuda/params.h"
#include "engine/kernel.h"

namespace rotary::internal::cuda {

/// Batch rows and tokens of one launch. In a decoding step (one token in each of many batch rows)
/// `batch_as_tokens` swaps the two: the kernel sees the batch rows as tokens of one batch row.
struct TokenRange {
  std::int64_t first_batch = 0;
  std::int64_t batch = 0;
  std::int64_t first_token = 0;
  std::int64_t tokens = 0;
  bool batch_as_tokens = false;
};

/// Calls `launch(range)` for every launch of batch x tokens. Returns the first result that is not
/// 0.
template <typename Launch>
auto for_each_token_range(std::int64_t batch, std::int64_t tokens, bool may_transpose,
                          const Launch& launch) {
  const bool transposes = may_transpose && tokens == 1 && batch > 1;
  const std::int64_t all_batch = transposes ? 1 : batch;
  const std::int64_t all_tokens = transposes ? batch : tokens;
  TokenRange range{.batch_as_tokens = transposes};
  decltype(launch(range)) result{};
  for (; range.first_batch < all_batch; range.first_batch += range.batch) {
    range.batch = all_batch - range.first_batch;
    if (range.batch > kBatchPerLaunch) range.batch = kBatchPerLaunch;
    for (range.first_token = 0; range.first_token < all_tokens; range.first_token += range.tokens) {
      range.tokens = all_tokens - range.first_token;
      if (range.tokens > kTokensPerLaunch) range.tokens = kTokensPerLaunch;
      result = launch(range);
      if (result != decltype(result){}) return result;
    }
  }
  return result;
}

/// A range of heads of an operand.
struct HeadSlice {
  const Operand* operand = nullptr;
  std::int64_t first_head = 0;
  std::int64_t heads = 0;
};

/// Operands of one launch: same input type, same output type, all in place or none.
struct OperandGroup {
  HeadSlice slices[kOperandsPerLaunch];
  int count = 0;
};

inline bool is_in_place(const Operand& x) noexcept { return x.in.data == x.out.data; }

/// Iterates over the operands of a call, group by group.
class OperandGroups {
 public:
  explicit OperandGroups(std::span<const Operand> operands) noexcept : operands_(operands) {}
  /// False when no heads are left.
  bool next(OperandGroup& group) noexcept;

 private:
  std::span<const Operand> operands_;
  std::int64_t done_[kMaxOperands] = {};  // heads
};

/// Addresses and strides of a slice, of the tokens of a range.
void fill_operand(const HeadSlice& slice, const TokenRange& range, OperandParams& o) noexcept;

/// Whether a decoding step may swap batch and tokens: not with packed sequences, nor with a table
/// per batch row, which depend on the batch index.
bool may_transpose(const RotateParams& params) noexcept;

struct PairRange {
  std::int64_t first = 0;
  std::int64_t count = 0;
};

}  // namespace rotary::internal::cuda
