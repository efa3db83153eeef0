// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// A norm of heads and their rotation, in registers where norm_fused-inl.h has a kernel for it, else
// block by block (norm_blocks.cc).

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu/norm_rotate.cc"
#include "cpu/targets.h"
// Must come before Highway's headers: it selects the targets.
#include <hwy/cache_control.h>
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "cpu/norm_block.h"
#include "cpu/norm_blocks.h"
#include "cpu/norm_fused-inl.h"
#include "cpu/parallel.h"
#include "cpu/plan.h"
#include "cpu/rotation_row-inl.h"
#include "engine/norm_kernel.h"

HWY_BEFORE_NAMESPACE();
namespace rotary::internal::HWY_NAMESPACE {

/// The operands of a task, with their kernels and tables.
class FusedOperands {
 public:
  FusedOperands(const NormParams& params, const CpuPlan& plan) : params_(params) {
    const RotateParams& rotation = params.rotation;
    stride_ = static_cast<std::size_t>(rotation.pairs) + kMaxLanes<FullTag<float>>;
    for (std::size_t i = 0; i < rotation.operands.size(); ++i) {
      const Operand& x = rotation.operands[i];
      const auto size = static_cast<std::int64_t>(size_of(x.in.dtype));
      FusedHeads& heads = heads_[i];
      heads = {.in_token_bytes = x.in.strides[1] * size,
               .out_token_bytes = x.out.strides[1] * size,
               .in_stride = x.in.strides[2],
               .out_stride = x.out.strides[2],
               .heads = x.in.shape[2],
               .head_dim = x.in.shape[3],
               .rotary_offset = rotation.rotary_offset,
               .pairs = rotation.pairs,
               .prefetches = plan.head_orders[i] == HeadOrder::kLines,
               .in_place = x.in.data == x.out.data,
               .streams = plan.store_modes[i] == StoreMode::kStreamed,
               .norm = params.norm,
               .table = params.tables[i],
               .factors = slice_of(params.tables[i].factors, x.in.dtype, 4 * i),
               .biases = {}};
      // Without a mean there is none; kernels of single pairs then load it, and do not use it.
      heads.biases = params.norm.has_mean ? slice_of(params.tables[i].biases, x.in.dtype, 4 * i + 2)
                                          : heads.factors;
      kernels_[i] = choose_fused(heads, x.in.dtype, rotation.read, params.rounding);
      if (kernels_[i].row_layout != RowLayout::kPerPair) row_layout_ = kernels_[i].row_layout;
    }
  }

  RowLayout row_layout() const { return row_layout_; }

  /// `count` tokens of a batch row by consecutive rows, of one operand after the other.
  void run(std::int64_t batch, std::int64_t token, std::int64_t count,
           const RotationRow<float>* rows) const {
    const std::span<const Operand> operands = params_.rotation.operands;
    for (std::size_t i = 0; i < operands.size(); ++i) {
      const Operand& x = operands[i];
      const auto size = static_cast<std::int64_t>(size_of(x.in.dtype));
      const auto offset = [&](const auto& view) {
        return (batch * view.strides[0] + token * view.strides[1]) * size;
      };
      kernels_[i].run(heads_[i], static_cast<const char*>(x.in.data) + offset(x.in),
                      static_cast<char*>(x.out.data) + offset(x.out), rows, count);
    }
  }

 private:
  /// The table of a rotary slice, in the layout of the kernel of that type.
  NormSlice slice_of(const float* table, DType dtype, std::size_t index) {
    const std::int64_t pairs = params_.rotation.pairs;
    const float* const all = table + params_.rotation.rotary_offset;
    NormSlice slice{all, all, all + pairs, (pairs + 1) / 2};
    const bool half = params_.rotation.read == Pairing::kHalf;
    const bool is_even_odd = half && dtype == DType::kBFloat16 &&
                             PoliciesOf<BFloat16>::Half::kRowLayout == RowLayout::kEvenOdd;
    if (dtype == DType::kFloat32 || (half && !is_even_odd)) return slice;
    if (arranged_.empty()) arranged_.resize(4 * params_.rotation.operands.size() * stride_);
    float* const to = arranged_.data() + index * stride_;
    for (std::int64_t first = 0; first < 2; ++first) {
      float* const part = to + first * static_cast<std::int64_t>(stride_);
      if (half) {
        to_even_odd(all + first * pairs, pairs, slice.odd_begin, part);
      } else {
        for (std::int64_t p = 0; p < pairs; ++p) part[p] = all[2 * p + first];
      }
    }
    slice.x = to;
    slice.y = to + stride_;
    return slice;
  }

  const NormParams& params_;
  std::array<FusedKernel, kMaxOperands> kernels_ = {};
  std::array<FusedHeads, kMaxOperands> heads_;
  std::size_t stride_;
  std::vector<float> arranged_;  // of each operand: x and y of factors, x and y of biases
  RowLayout row_layout_ = RowLayout::kPerPair;
};

/// Tokens of rank first .. last - 1, batch row by batch row.
void fused_tokens(const NormParams& params, const CpuPlan& plan, std::int64_t first,
                  std::int64_t last) {
  const FusedOperands operands(params, plan);
  RotationRowBuilder<float> rows(params.rotation, operands.row_layout());
  constexpr std::int64_t kRowsTogether = 16;
  RotationRow<float> block[kRowsTogether];
  const std::int64_t max_rows = std::min(kRowsTogether, rows.max_rows());
  const std::int64_t tokens = params.rotation.operands.front().in.shape[1];
  while (first < last) {
    const std::int64_t b = first / tokens;
    const std::int64_t t = first % tokens;
    const std::int64_t count = std::min({max_rows, last - first, tokens - t});
    if (count == 1 || !rows.build_range(t, count, block)) {
      for (std::int64_t i = 0; i < count; ++i) block[i] = rows.build(b, t + i, i);
    }
    operands.run(b, t, count, block);
    first += count;
  }
  if (plan.has_stream_stores) hwy::FlushStream();
}

}  // namespace rotary::internal::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace rotary::internal {
namespace {

HWY_EXPORT(fused_tokens);

/// Whether a fused kernel takes all operands.
bool is_fused(const NormParams& params) {
  if (params.order != NormOrder::kBeforeRotation || params.norm.across_heads ||
      params.rotation.read != params.rotation.write) {
    return false;
  }
  const std::span<const Operand> operands = params.rotation.operands;
  return std::all_of(operands.begin(), operands.end(), [](const Operand& x) {
    return x.in.strides[3] == 1 && x.out.strides[3] == 1;
  });
}

}  // namespace

void norm_rotate_on_cpu(const NormParams& params, const Threads& threads) {
  if (!is_fused(params)) return norm_blocks_on_cpu(params, threads);
  const CpuPlan plan = make_cpu_plan(params.rotation, threads);
  const auto engine = HWY_DYNAMIC_DISPATCH(fused_tokens);
  if (plan.tasks == 1) return engine(params, plan, 0, plan.num_tokens);
  const auto run = [&params, &plan, engine](int task) {
    engine(params, plan, plan.num_tokens * task / plan.tasks,
           plan.num_tokens * (task + 1) / plan.tasks);
  };
  run_tasks(threads, plan.tasks, std::ref(run));
}

void norm_rotate_tokens_on_cpu(const NormParams& params, std::int64_t first, std::int64_t last) {
  if (!is_fused(params)) return norm_blocks_tokens_on_cpu(params, first, last);
  HWY_DYNAMIC_DISPATCH(fused_tokens)(params, CpuPlan(), first, last);  // results stay in the cache
}

}  // namespace rotary::internal
#endif  // HWY_ONCE
