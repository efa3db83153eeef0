// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// The rotation on the CPU: compiled once for each set of vector instructions, chosen when the
// program runs.

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu/rotate.cc"
#include "cpu/targets.h"
// Above is before this on purpose: it says which targets are built.
#include <hwy/cache_control.h>
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

#include "cpu/operand-inl.h"
#include "cpu/parallel.h"
#include "cpu/plan.h"
#include "cpu/row-inl.h"
#include "cpu/stage-inl.h"
#include "cpu/turns-inl.h"
#include "rope/kernel.h"

HWY_BEFORE_NAMESPACE();
namespace rotary::internal::HWY_NAMESPACE {

/// The operands of a call that are turned in one arithmetic.
template <typename T>
class OperandRuns {
 public:
  OperandRuns(const Job& job, const Plan& plan, void* room) {
    for (std::size_t i = 0; i < job.operands.size(); ++i) {
      const Operand& x = job.operands[i];
      const bool is_double = x.in.dtype == DType::kFloat64;
      if (is_double != (sizeof(T) == sizeof(double)) || x.in.shape[2] == 0) continue;
      runs_[count_++].begin(job, x, plan.delivery[i], plan.locality, room);
    }
  }
  OperandRun<T>* begin() { return runs_; }
  OperandRun<T>* end() { return runs_ + count_; }

 private:
  OperandRun<T> runs_[kMaxOperands];
  std::size_t count_ = 0;
};

/// Tokens in the order of a plan's rows, from row `first` on.
struct Walk {
  Walk(const Job& job, const Plan& plan, std::int64_t first)
      : batches(job.operands.front().in.shape[0]),
        tokens(job.operands.front().in.shape[1]),
        tokens_first(plan.tokens_first),
        b(tokens_first ? first % batches : first / tokens),
        t(tokens_first ? first / batches : first % tokens) {}

  enum class Step : std::uint8_t { kToken, kBatch, kBoth };  // what is another one than before

  Step step() {
    if (tokens_first) {
      if (++b < batches) return Step::kBatch;
      b = 0;
      ++t;
      return Step::kBoth;
    }
    if (++t < tokens) return Step::kToken;
    t = 0;
    ++b;
    return Step::kBoth;
  }

  std::int64_t batches, tokens;
  bool tokens_first;
  std::int64_t b, t;
};

/// Rows first .. last - 1 of all operands of one arithmetic.
template <typename T>
void turn_rows(const Job& job, const Plan& plan, std::int64_t first, std::int64_t last) {
  if (first == last) return;
  RowMaker<T> maker(job, plan.form);
  alignas(64) char room[2 * kStackPairs * sizeof(T)];  // for a slice
  std::vector<char> heap;
  if (job.pairs > kStackPairs) heap.resize(2 * static_cast<std::size_t>(job.pairs) * sizeof(T));
  OperandRuns<T> operands(job, plan, heap.empty() ? room : heap.data());
  Stage stage;

  Walk at(job, plan, first);
  Row<T> row = maker.make(at.b, at.t);
  for (OperandRun<T>& operand : operands) operand.seek(at.b, at.t);
  for (std::int64_t r = first + 1; r < last; ++r) {
    const Walk::Step step = at.step();
    // Made before the heads of this token are turned, so that nothing waits for it. Batch rows
    // share positions.
    const Row<T> next = step == Walk::Step::kBatch ? row : maker.make(at.b, at.t);
    for (OperandRun<T>& operand : operands) {
      operand.turn(row, stage);
      step == Walk::Step::kToken ? operand.advance() : operand.seek(at.b, at.t);
    }
    row = next;
  }
  for (OperandRun<T>& operand : operands) operand.turn(row, stage);
  for (OperandRun<T>& operand : operands) operand.finish();
  if (plan.streams_any) hwy::FlushStream();
}

void rotate_rows(const Job& job, const Plan& plan, std::int64_t first, std::int64_t last) {
  if (plan.uses_float) turn_rows<float>(job, plan, first, last);
  if (plan.uses_double) turn_rows<double>(job, plan, first, last);
}

void fill_rows(const PhaseTable& phases, std::int64_t first, std::int64_t count, float* rows) {
  const Source source{.phases = &phases};
  Place place{};
  place.same_on_all_axes = true;
  // In pieces that leave a tail of the last row alone.
  alignas(64) float c[kPhases];
  alignas(64) float s[kPhases];
  for (std::int64_t p = 0; p < count; ++p) {
    for (std::int64_t a = 0; a < phases.axes; ++a) {
      place.at[a] = {.integer = first + p, .real = static_cast<double>(first + p)};
      place.fixed[a] = to_fixed(first + p);
    }
    float* row = rows + p * 2 * phases.pairs;
    for (std::int64_t i = 0; i < phases.pairs; i += static_cast<std::int64_t>(kPhases)) {
      const auto n = std::min(static_cast<std::int64_t>(kPhases), phases.pairs - i);
      unit_pairs(source, place, i, static_cast<std::size_t>(n), c, s);
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

HWY_EXPORT(rotate_rows);
HWY_EXPORT(fill_rows);
HWY_EXPORT(target_here);

}  // namespace

void rotate_on_cpu(const Job& job, const Threads& threads) {
  const Plan plan = make_plan(job, threads);
  const auto engine = HWY_DYNAMIC_DISPATCH(rotate_rows);
  const auto run = [&job, &plan, engine](int task) {
    const std::int64_t first = plan.rows * task / plan.tasks;
    const std::int64_t last = plan.rows * (task + 1) / plan.tasks;
    engine(job, plan, first, last);
  };
  if (plan.tasks == 1) return run(0);
  run_tasks(threads, plan.tasks, std::ref(run));
}

void fill_rows_on_cpu(const PhaseTable& phases, std::int64_t first, std::int64_t count,
                      float* rows) {
  HWY_DYNAMIC_DISPATCH(fill_rows)(phases, first, count, rows);
}

const char* target_in_use() noexcept { return HWY_DYNAMIC_DISPATCH(target_here)(); }

}  // namespace rotary::internal
#endif  // HWY_ONCE
