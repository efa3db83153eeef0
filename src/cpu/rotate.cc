// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// The rotation on the CPU, compiled once per Highway target and dispatched at run time.

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu/rotate.cc"
#include "cpu/targets.h"
// Must come before Highway's headers: it selects the targets.
#include <hwy/cache_control.h>
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

#include "cpu/operand_cursor-inl.h"
#include "cpu/parallel.h"
#include "cpu/plan.h"
#include "cpu/rotate.h"
#include "cpu/rotation_row-inl.h"
#include "cpu/write_combine-inl.h"
#include "engine/kernel.h"

HWY_BEFORE_NAMESPACE();
namespace rotary::internal::HWY_NAMESPACE {

/// The operands of a call whose arithmetic is T.
template <typename T>
class OperandCursors {
 public:
  OperandCursors(const RotateParams& params, const CpuPlan& plan, void* scratch) {
    for (std::size_t i = 0; i < params.operands.size(); ++i) {
      const Operand& x = params.operands[i];
      const bool is_double = x.in.dtype == DType::kFloat64;
      if (is_double != (sizeof(T) == sizeof(double)) || x.in.shape[2] == 0) continue;
      OperandCursor<T>& cursor = cursors_[count_++];
      cursor.begin(params, plan, i, scratch);
      if (cursor.row_layout() != RowLayout::kPerPair) row_layout_ = cursor.row_layout();
    }
  }
  /// One layout besides kPerPair serves all operands, since they share their pairing.
  RowLayout row_layout() const { return row_layout_; }
  OperandCursor<T>* begin() { return cursors_; }
  OperandCursor<T>* end() { return cursors_ + count_; }

 private:
  OperandCursor<T> cursors_[kMaxOperands];
  std::size_t count_ = 0;
  RowLayout row_layout_ = RowLayout::kPerPair;
};

/// Iterates over (batch, token) in the plan's order, from the token of that rank on.
struct TokenIterator {
  TokenIterator(const RotateParams& params, const CpuPlan& plan, std::int64_t rank)
      : batches(params.operands.front().in.shape[0]),
        tokens(params.operands.front().in.shape[1]),
        token_outer(plan.token_order == TokenOrder::kTokenOuter),
        b(0),
        t(0) {
    if (rank == 0) return;  // no divisions in a decoding step
    b = token_outer ? rank % batches : rank / tokens;
    t = token_outer ? rank / batches : rank % tokens;
  }

  /// Which coordinates a step changed.
  enum class Change : std::uint8_t { kToken, kBatch, kBoth };

  Change step() {
    if (token_outer) {
      if (++b < batches) return Change::kBatch;
      b = 0;
      ++t;
      return Change::kBoth;
    }
    if (++t < tokens) return Change::kToken;
    t = 0;
    ++b;
    return Change::kBoth;
  }

  /// How many of the next `count` tokens follow each other in one batch row.
  std::int64_t run(std::int64_t count) const {
    return token_outer ? 1 : std::min(count, tokens - t);
  }
  /// Past such a run.
  void skip(std::int64_t run) {
    if (!token_outer) t += run - 1;
    step();
  }

  std::int64_t batches, tokens;
  bool token_outer;
  std::int64_t b, t;
};

/// Moves operands to the token of `at`, after a step that made that change.
template <typename T>
HWY_INLINE void move_to(OperandCursor<T>& operand, const TokenIterator& at,
                        TokenIterator::Change change) {
  change == TokenIterator::Change::kToken ? operand.advance() : operand.seek(at.b, at.t);
}

/// Token by token: all operands of a token, then the next token.
template <typename T>
void rotate_token_by_token(OperandCursors<T>& operands, RotationRowBuilder<T>& rows,
                           TokenIterator at, std::int64_t count, WriteCombineBuffer& buffer) {
  using Change = TokenIterator::Change;
  RotationRow<T> row = rows.build(at.b, at.t);
  for (OperandCursor<T>& operand : operands) operand.seek(at.b, at.t);
  for (std::int64_t i = 1; i < count; ++i) {
    const Change change = at.step();
    // The next row is built before the heads of this token are rotated, so that the two overlap.
    // In kTokenOuter order all batch rows share it.
    const RotationRow<T> next = change == Change::kBatch ? row : rows.build(at.b, at.t);
    for (OperandCursor<T>& operand : operands) {
      operand.rotate(row, buffer);
      move_to(operand, at, change);
    }
    row = next;
  }
  for (OperandCursor<T>& operand : operands) operand.rotate(row, buffer);
}

/// Block by block: some tokens of an operand, then the same tokens of the next. One long stream of
/// results after the other instead of several short ones in turn.
template <typename T>
HWY_NOINLINE void rotate_block_by_block(OperandCursors<T>& operands, RotationRowBuilder<T>& rows,
                                        TokenIterator at, std::int64_t count,
                                        std::int64_t block_tokens, WriteCombineBuffer& buffer) {
  using Change = TokenIterator::Change;
  RotationRow<T> block[kMaxBlockTokens];
  const std::int64_t max_tokens = std::min({block_tokens, kMaxBlockTokens, rows.max_rows()});
  while (count > 0) {
    const std::int64_t tokens = std::min(count, max_tokens);
    const TokenIterator begin = at;
    if (at.run(tokens) < tokens || !rows.build_range(at.t, tokens, block)) {
      for (std::int64_t i = 0; i < tokens; ++i) {
        const Change change = i == 0 ? Change::kBoth : at.step();
        block[i] = change == Change::kBatch ? block[i - 1] : rows.build(at.b, at.t, i);
      }
    }
    for (OperandCursor<T>& operand : operands) {
      at = begin;
      for (std::int64_t i = 0; i < tokens;) {
        operand.seek(at.b, at.t);
        const std::int64_t run = at.run(tokens - i);
        operand.rotate_tokens(block + i, run, buffer);
        at.skip(run);
        i += run;
      }
    }
    count -= tokens;
  }
}

/// Token by token, with the rows of some tokens computed together, which takes less time.
template <typename T>
HWY_NOINLINE void rotate_range_by_token(OperandCursors<T>& operands, RotationRowBuilder<T>& rows,
                                        TokenIterator at, std::int64_t count,
                                        WriteCombineBuffer& buffer) {
  constexpr std::int64_t kRowsTogether = 16;
  RotationRow<T> block[kRowsTogether];
  const std::int64_t max_tokens = std::min(kRowsTogether, rows.max_rows());
  while (count > 0) {
    const std::int64_t tokens = at.run(std::min(count, max_tokens));
    if (!rows.build_range(at.t, tokens, block)) {
      for (std::int64_t i = 0; i < tokens; ++i) block[i] = rows.build(at.b, at.t + i, i);
    }
    for (OperandCursor<T>& operand : operands) operand.seek(at.b, at.t);
    for (std::int64_t i = 0; i < tokens; ++i) {
      for (OperandCursor<T>& operand : operands) {
        operand.rotate(block[i], buffer);
        operand.advance();
      }
    }
    at.skip(tokens);
    count -= tokens;
  }
}

/// Tokens of rank first .. last - 1 of all operands whose arithmetic is T.
template <typename T>
void rotate_tokens_in(const RotateParams& params, const CpuPlan& plan, std::int64_t first,
                      std::int64_t last) {
  if (first == last) return;
  alignas(64) char stack[2 * kMaxStackPairs * sizeof(T)];
  std::vector<char> heap;
  if (params.pairs > kMaxStackPairs) {
    heap.resize(2 * static_cast<std::size_t>(params.pairs) * sizeof(T));
  }
  OperandCursors<T> operands(params, plan, heap.empty() ? stack : heap.data());
  RotationRowBuilder<T> rows(params, operands.row_layout());
  WriteCombineBuffer buffer;  // NOLINT(cppcoreguidelines-pro-type-member-init): written first

  const TokenIterator at(params, plan, first);
  if (plan.block_tokens == 1 && at.run(last - first) > 1 && rows.computes_range(at.t)) {
    rotate_range_by_token(operands, rows, at, last - first, buffer);
  } else if (plan.block_tokens == 1 || last - first == 1) {
    rotate_token_by_token(operands, rows, at, last - first, buffer);
  } else {
    rotate_block_by_block(operands, rows, at, last - first, plan.block_tokens, buffer);
  }
  for (OperandCursor<T>& operand : operands) operand.finish();
  if (plan.has_stream_stores) hwy::FlushStream();
}

void rotate_tokens(const RotateParams& params, const CpuPlan& plan, std::int64_t first,
                   std::int64_t last) {
  if (plan.uses_float) rotate_tokens_in<float>(params, plan, first, last);
  if (plan.uses_double) rotate_tokens_in<double>(params, plan, first, last);
}

void fill_rows(const PhaseTable& phases, std::int64_t first, std::int64_t count, float* rows) {
  const AngleSource source{.phases = &phases};
  AxisPositions positions{};
  positions.is_one_integer = true;
  // unit_pairs() writes whole vectors, which must not run past the last row.
  alignas(64) float c[kMaxPhases];
  alignas(64) float s[kMaxPhases];
  for (std::int64_t p = 0; p < count; ++p) {
    for (std::int64_t a = 0; a < phases.axes; ++a) {
      positions.at[a] = {.integer = first + p, .real = static_cast<double>(first + p)};
      positions.fixed[a] = to_fixed(first + p);
    }
    float* row = rows + p * 2 * phases.pairs;
    for (std::int64_t i = 0; i < phases.pairs; i += static_cast<std::int64_t>(kMaxPhases)) {
      const auto n = std::min(static_cast<std::int64_t>(kMaxPhases), phases.pairs - i);
      unit_pairs(source, positions, i, static_cast<std::size_t>(n), c, s);
      std::copy_n(c, n, row + i);
      std::copy_n(s, n, row + phases.pairs + i);
    }
  }
}

const char* target_here() { return hwy::TargetName(HWY_TARGET); }

}  // namespace rotary::internal::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace rotary::internal {
namespace {

HWY_EXPORT(rotate_tokens);
HWY_EXPORT(fill_rows);
HWY_EXPORT(target_here);

}  // namespace

void rotate_on_cpu(const RotateParams& params, const Threads& threads) {
  const CpuPlan plan = make_cpu_plan(params, threads);
  const auto engine = HWY_DYNAMIC_DISPATCH(rotate_tokens);
  const auto run = [&params, &plan, engine](int task) {
    const std::int64_t first = plan.num_tokens * task / plan.tasks;
    const std::int64_t last = plan.num_tokens * (task + 1) / plan.tasks;
    engine(params, plan, first, last);
  };
  if (plan.tasks == 1) return engine(params, plan, 0, plan.num_tokens);
  run_tasks(threads, plan.tasks, std::ref(run));
}

void rotate_tokens_on_cpu(const RotateParams& params, const CpuPlan& plan, std::int64_t first,
                          std::int64_t last) {
  HWY_DYNAMIC_DISPATCH(rotate_tokens)(params, plan, first, last);
}

void fill_rows_on_cpu(const PhaseTable& phases, std::int64_t first, std::int64_t count,
                      float* rows) {
  HWY_DYNAMIC_DISPATCH(fill_rows)(phases, first, count, rows);
}

const char* target_in_use() noexcept { return HWY_DYNAMIC_DISPATCH(target_here)(); }

}  // namespace rotary::internal
#endif  // HWY_ONCE
