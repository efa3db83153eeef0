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

#include "cpu/heads-inl.h"
#include "cpu/pairs-inl.h"
#include "cpu/parallel.h"
#include "cpu/plan.h"
#include "cpu/row-inl.h"
#include "cpu/turns-inl.h"
#include "rope/kernel.h"

HWY_BEFORE_NAMESPACE();
namespace rotary::internal::HWY_NAMESPACE {

/// Copies what lies outside the rotary slice. `size` is that of an element.
inline void copy_rest(const Job& job, const Operand& x, const char* in, char* out) {
  const auto size = static_cast<std::int64_t>(size_of(x.in.dtype));
  const std::int64_t end = job.rotary_offset + 2 * job.pairs;
  const std::int64_t head_dim = x.in.shape[3];
  if (in == out || (job.rotary_offset == 0 && end == head_dim)) return;
  const bool dense = x.in.strides[3] == 1 && x.out.strides[3] == 1;
  for (std::int64_t h = 0; h < x.in.shape[2]; ++h) {
    const char* from = in + h * x.in.strides[2] * size;
    char* to = out + h * x.out.strides[2] * size;
    const auto copy = [&](std::int64_t first, std::int64_t last) {
      if (dense) {
        std::copy_n(from + first * size, (last - first) * size, to + first * size);
        return;
      }
      for (std::int64_t i = first; i < last; ++i) {
        std::copy_n(from + i * x.in.strides[3] * size, size, to + i * x.out.strides[3] * size);
      }
    };
    copy(0, job.rotary_offset);
    copy(end, head_dim);
  }
}

/// The heads of one token of one operand.
template <class E>
void turn_token(const Job& job, const Plan& plan, std::size_t operand, std::int64_t b,
                std::int64_t t, const Row<typename E::Compute>& row, void* slice) {
  using Storage = typename E::Storage;
  const Operand& x = job.operands[operand];
  if (x.in.shape[2] == 0) return;
  const Dims& from = x.in.strides;
  const Dims& to = x.out.strides;
  const auto* in = static_cast<const Storage*>(x.in.data) + b * from[0] + t * from[1];
  auto* out = static_cast<Storage*>(x.out.data) + b * to[0] + t * to[1];
  const Slices<Storage> slices{.in = in + job.rotary_offset * from[3],
                               .out = out + job.rotary_offset * to[3],
                               .in_stride = from[2],
                               .out_stride = to[2],
                               .in_step = from[3],
                               .out_step = to[3],
                               .heads = x.in.shape[2],
                               .pairs = job.pairs};
  if (job.read != job.write || from[3] != 1 || to[3] != 1) {
    turn_any<E>(slices, job.read, job.write, row, static_cast<Storage*>(slice));
  } else if (plan.streams[operand]) {
    turn_dense<E, kStreams>(slices, job.read, row, plan.locality);
  } else {
    turn_dense<E, StoreMode::kCached>(slices, job.read, row, plan.locality);
  }
  copy_rest(job, x, reinterpret_cast<const char*>(in), reinterpret_cast<char*>(out));
}

/// Rows first .. last - 1 of all operands of one arithmetic.
template <typename T>
void turn_rows(const Job& job, const Plan& plan, std::int64_t first, std::int64_t last) {
  RowMaker<T> maker(job, plan.form);
  alignas(64) char stack[2 * kStackPairs * sizeof(T)];
  std::vector<char> heap;
  if (job.pairs > kStackPairs) heap.resize(2 * static_cast<std::size_t>(job.pairs) * sizeof(T));
  void* slice = heap.empty() ? stack : heap.data();

  const auto [batches, tokens, heads, head_dim] = job.operands.front().in.shape;
  Row<T> row{};
  std::int64_t made = -1;  // token of the row, where batch rows share them
  for (std::int64_t r = first; r < last; ++r) {
    const std::int64_t b = plan.tokens_first ? r % batches : r / tokens;
    const std::int64_t t = plan.tokens_first ? r / batches : r % tokens;
    if (!plan.tokens_first || t != made) row = maker.make(b, t);
    made = t;
    for (std::size_t i = 0; i < job.operands.size(); ++i) {
      const DType dtype = job.operands[i].in.dtype;
      if constexpr (sizeof(T) == sizeof(double)) {
        if (dtype == DType::kFloat64) turn_token<Float64>(job, plan, i, b, t, row, slice);
      } else {
        if (dtype == DType::kFloat32) turn_token<Float32>(job, plan, i, b, t, row, slice);
        if (dtype == DType::kBFloat16) turn_token<BFloat16>(job, plan, i, b, t, row, slice);
        if (dtype == DType::kFloat16) turn_token<Float16>(job, plan, i, b, t, row, slice);
      }
    }
  }
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
