// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// Norms across heads or after the rotation, of heads of any strides and pairings. Tokens are taken
// block by block: normalised into the results, or into scratch memory in float32, and rotated there
// by the engine of rotate() while they are in the cache; or in the other order.

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu/norm_blocks.cc"
#include "cpu/targets.h"
// Must come before Highway's headers: it selects the targets.
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "cpu/norm_block.h"
#include "cpu/norm_blocks.h"
#include "cpu/norm_heads-inl.h"
#include "cpu/parallel.h"
#include "cpu/plan.h"
#include "cpu/rotate.h"
#include "engine/norm_kernel.h"

HWY_BEFORE_NAMESPACE();
namespace rotary::internal::HWY_NAMESPACE {

void norm_block(const NormBlock& a, float* memory) {
  if (a.in_type == DType::kFloat32) {
    if (a.out_type == DType::kBFloat16) return norm_heads<Float32, BFloat16>(a, memory);
    if (a.out_type == DType::kFloat16) return norm_heads<Float32, Float16>(a, memory);
    return norm_heads<Float32, Float32>(a, memory);
  }
  if (a.norm.in_steps) {  // and the same type
    return a.in_type == DType::kBFloat16 ? norm_heads<BFloat16, BFloat16, BFloat16>(a, memory)
                                         : norm_heads<Float16, Float16, Float16>(a, memory);
  }
  const bool to_float = a.out_type == DType::kFloat32;
  if (a.in_type == DType::kBFloat16) {
    return to_float ? norm_heads<BFloat16, Float32>(a, memory)
                    : norm_heads<BFloat16, BFloat16>(a, memory);
  }
  to_float ? norm_heads<Float16, Float32>(a, memory) : norm_heads<Float16, Float16>(a, memory);
}

/// The same elements in another type: 16-bit ones to float32, or rounded from it.
void convert_block(const NormBlock& a, float* memory) {
  if (a.in_type == DType::kBFloat16) return convert_heads<BFloat16, Float32>(a, memory);
  if (a.in_type == DType::kFloat16) return convert_heads<Float16, Float32>(a, memory);
  a.out_type == DType::kBFloat16 ? convert_heads<Float32, BFloat16>(a, memory)
                                 : convert_heads<Float32, Float16>(a, memory);
}

}  // namespace rotary::internal::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace rotary::internal {
namespace {

HWY_EXPORT(norm_block);
HWY_EXPORT(convert_block);

/// Bytes of the results of a block, so that they stay in the first- or second-level cache.
constexpr std::int64_t kNormBlockBytes = std::int64_t{1} << 16;

/// Tokens first .. last - 1 of a batch row.
struct TokenRange {
  std::int64_t batch, first, last;
};

/// The blocks of one task.
class BlockTask {
 public:
  BlockTask(const NormParams& params, const CpuPlan& plan, std::int64_t max_tokens)
      : params_(params), plan_(plan) {
    std::size_t wide = 0;
    std::size_t memory = 0;
    for (const Operand& x : params.rotation.operands) {
      const bool is_wide =
          params.rounding == NormRounding::kFloat32 && x.in.dtype != DType::kFloat32;
      const auto token_size = static_cast<std::size_t>(x.in.shape[2] * x.in.shape[3]);
      offsets_.push_back(is_wide ? static_cast<std::int64_t>(wide) : -1);
      if (is_wide) wide += static_cast<std::size_t>(max_tokens) * token_size;
      const auto head_size = static_cast<std::size_t>(x.in.shape[3]);
      memory = std::max(memory, params.norm.across_heads ? token_size : head_size);
    }
    wide_.resize(wide);
    memory_.resize(memory);
  }

  void run(const TokenRange& at) {
    const std::span<const Operand> given = params_.rotation.operands;
    const bool norm_first = params_.order == NormOrder::kBeforeRotation;
    rotated_.clear();
    for (std::size_t i = 0; i < given.size(); ++i) {
      const TensorView to = place_of(i, at);
      if (norm_first) {
        norm({given[i].in, to}, i, at);
        rotated_.emplace_back(to);
      } else if (is_wide(i)) {
        convert({given[i].in, to}, at);
        rotated_.emplace_back(to);
      } else {
        rotated_.emplace_back(given[i].in, to);
      }
    }
    RotateParams rotation = params_.rotation;
    rotation.operands = rotated_;
    const std::int64_t rank = at.batch * given.front().in.shape[1];
    rotate_tokens_on_cpu(rotation, plan_, rank + at.first, rank + at.last);
    for (std::size_t i = 0; i < given.size(); ++i) {
      if (!norm_first) {
        norm({rotated_[i].out, given[i].out}, i, at);
      } else if (is_wide(i)) {
        convert({rotated_[i].out, given[i].out}, at);
      }
    }
  }

 private:
  bool is_wide(std::size_t i) const { return offsets_[i] >= 0; }

  /// Where the tokens of a block are rotated: the result, or scratch memory, which begins with the
  /// first of them.
  TensorView place_of(std::size_t i, const TokenRange& at) {
    TensorView view = params_.rotation.operands[i].out;
    if (!is_wide(i)) return view;
    view.dtype = DType::kFloat32;
    view.strides = {0, view.shape[2] * view.shape[3], view.shape[3], 1};
    const auto before = static_cast<std::uintptr_t>(at.first * view.strides[1]) * sizeof(float);
    // Where token 0 would lie. That is outside of the memory, which pointers must not leave.
    view.data = reinterpret_cast<void*>(  // NOLINT(performance-no-int-to-ptr)
        reinterpret_cast<std::uintptr_t>(wide_.data() + offsets_[i]) - before);
    return view;
  }

  static NormBlock block_of(const Operand& x, const TokenRange& at) {
    const auto offset = [&at](const auto& view) {
      return static_cast<std::uintptr_t>((at.batch * view.strides[0] + at.first * view.strides[1]) *
                                         static_cast<std::int64_t>(size_of(view.dtype)));
    };
    const auto address = [&offset](const auto& view) {
      return reinterpret_cast<void*>(  // NOLINT(performance-no-int-to-ptr): as in place_of()
          reinterpret_cast<std::uintptr_t>(view.data) + offset(view));
    };
    return {.in = address(x.in),
            .out = address(x.out),
            .in_type = x.in.dtype,
            .out_type = x.out.dtype,
            .in_token_stride = x.in.strides[1],
            .in_head_stride = x.in.strides[2],
            .in_step = x.in.strides[3],
            .out_token_stride = x.out.strides[1],
            .out_head_stride = x.out.strides[2],
            .out_step = x.out.strides[3],
            .tokens = at.last - at.first,
            .heads = x.in.shape[2],
            .head_dim = x.in.shape[3],
            .table = {},
            .norm = {}};
  }

  void norm(const Operand& x, std::size_t i, const TokenRange& at) {
    NormBlock block = block_of(x, at);
    block.table = params_.tables[i];
    block.norm = params_.norm;
    HWY_DYNAMIC_DISPATCH(norm_block)(block, memory_.data());
  }
  void convert(const Operand& x, const TokenRange& at) {
    HWY_DYNAMIC_DISPATCH(convert_block)(block_of(x, at), memory_.data());
  }

  const NormParams& params_;
  const CpuPlan& plan_;
  std::vector<float> wide_;
  std::vector<float> memory_;          // of a head, or of the heads of a token
  std::vector<std::int64_t> offsets_;  // in wide_; negative for none
  std::vector<Operand> rotated_;
};

/// The plan of the rotation of blocks, which are in the cache, in place.
CpuPlan make_block_plan(const NormParams& params, const Threads& threads) {
  std::vector<Operand> in_place;
  for (const Operand& x : params.rotation.operands) in_place.emplace_back(x.out);
  RotateParams cached = params.rotation;
  cached.operands = in_place;
  if (cached.order.heads == HeadOrder::kAuto) cached.order.heads = HeadOrder::kColumns;
  cached.order.block = 1;
  CpuPlan plan = make_cpu_plan(cached, threads);
  plan.token_order = TokenOrder::kBatchOuter;
  return plan;
}

void run_blocks(const NormParams& params, const CpuPlan& plan, std::int64_t first,
                std::int64_t last) {
  std::int64_t token_bytes = 1;
  for (const Operand& x : params.rotation.operands) {
    token_bytes += x.in.shape[2] * x.in.shape[3] * static_cast<std::int64_t>(size_of(x.in.dtype));
  }
  const std::int64_t tokens = params.rotation.operands.front().in.shape[1];
  const std::int64_t max_tokens = std::max<std::int64_t>(1, kNormBlockBytes / token_bytes);
  BlockTask task(params, plan, std::min(max_tokens, last - first));
  while (first < last) {
    const std::int64_t t = first % tokens;
    const std::int64_t count = std::min({max_tokens, last - first, tokens - t});
    task.run({first / tokens, t, t + count});
    first += count;
  }
}

}  // namespace

void norm_blocks_on_cpu(const NormParams& params, const Threads& threads) {
  const CpuPlan plan = make_block_plan(params, threads);
  const auto run = [&params, &plan](int task) {
    run_blocks(params, plan, plan.num_tokens * task / plan.tasks,
               plan.num_tokens * (task + 1) / plan.tasks);
  };
  run_tasks(threads, plan.tasks, std::ref(run));
}

void norm_blocks_tokens_on_cpu(const NormParams& params, std::int64_t first, std::int64_t last) {
  run_blocks(params, make_block_plan(params, {.count = 1}), first, last);
}

}  // namespace rotary::internal
#endif  // HWY_ONCE
