// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// Rotation into a store. Tokens are rotated block by block, after their norm if there is one. What
// is to be stored goes through scratch memory that stays in the cache.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "cpu/parallel.h"
#include "cpu/plan.h"
#include "cpu/rotate.h"
#include "cpu/store_block.h"
#include "cpu/store_heads.h"
#include "engine/store_kernel.h"

namespace rotary::internal {
namespace {

/// Bytes of the scratch memory of a task, so that it stays in the first- or second-level cache.
constexpr std::int64_t kScratchBytes = std::int64_t{1} << 16;
constexpr std::int64_t kTaskBytes = std::int64_t{1} << 18;  // worth a thread, as in plan.cc
constexpr std::size_t kLineBytes = 64;

/// Tokens first .. last - 1 of a batch row of `tokens`.
struct TokenRange {
  std::int64_t batch, first, last, tokens;
};

/// Runs work(range) for ranges of at most max_tokens that cover the tokens first .. last - 1 of all
/// batch rows.
template <typename Work>
void for_each_range(std::int64_t first, std::int64_t last, std::int64_t tokens,
                    std::int64_t max_tokens, const Work& work) {
  for (std::int64_t rank = first; rank < last;) {
    const std::int64_t t = rank % tokens;
    const std::int64_t count = std::min({max_tokens, last - rank, tokens - t});
    work(TokenRange{rank / tokens, t, t + count, tokens});
    rank += count;
  }
}

std::int64_t bytes_of(const ConstTensorView& x) noexcept {
  return x.num_elements() * static_cast<std::int64_t>(size_of(x.dtype));
}

std::int64_t bytes_of_token(const ConstTensorView& x) noexcept {
  return x.shape[2] * x.shape[3] * static_cast<std::int64_t>(size_of(x.dtype));
}

StoreBlock block_of(const HeadStore& store, const ConstTensorView& x, const TokenRange& at,
                    const std::int64_t* slots) {
  const std::int64_t rank = at.batch * at.tokens + at.first;
  const std::int64_t offset = (at.batch * x.strides[0] + at.first * x.strides[1]) *
                              static_cast<std::int64_t>(size_of(x.dtype));
  // Addresses as integers: that of token 0 may lie outside of the memory.
  const auto address =
      reinterpret_cast<std::uintptr_t>(x.data) + static_cast<std::uintptr_t>(offset);
  return {.store = store,
          .heads = reinterpret_cast<void*>(address),  // NOLINT(performance-no-int-to-ptr)
          .type = x.dtype,
          .token_stride = x.strides[1],
          .head_stride = x.strides[2],
          .step = x.strides[3],
          .slots = slots == nullptr ? nullptr : slots + rank,
          .first_slot = rank,
          .tokens = at.last - at.first};
}

/// The operands of a task, with scratch memory in place of what is stored.
class ScratchOperands {
 public:
  ScratchOperands(const RotateStoreParams& params, std::int64_t max_tokens) : params_(params) {
    std::size_t size = 0;
    for (std::size_t i = 0; i < params.rotation.operands.size(); ++i) {
      const ConstTensorView& x = params.rotation.operands[i].in;
      offsets_.push_back(size);
      if (params.stores[i] == nullptr) continue;
      const auto bytes = static_cast<std::size_t>(max_tokens * bytes_of_token(x));
      size += (bytes + kLineBytes - 1) / kLineBytes * kLineBytes;
    }
    memory_.reset(new std::byte[size + kLineBytes]);  // not cleared
    const auto address = reinterpret_cast<std::uintptr_t>(memory_.get());
    scratch_ = memory_.get() + (kLineBytes - address % kLineBytes) % kLineBytes;
  }

  /// For the tokens of `at`: scratch memory begins with its first token.
  std::span<const Operand> at(const TokenRange& at) {
    operands_.clear();
    for (std::size_t i = 0; i < params_.rotation.operands.size(); ++i) {
      const Operand& given = params_.rotation.operands[i];
      if (params_.stores[i] == nullptr) {
        operands_.push_back(given);
        continue;
      }
      TensorView view = given.out;
      view.dtype = given.in.dtype;
      view.strides = {0, view.shape[2] * view.shape[3], view.shape[3], 1};
      const std::int64_t before = at.first * bytes_of_token(view);
      const auto begin = reinterpret_cast<std::uintptr_t>(scratch_ + offsets_[i]);
      // Where token 0 would lie. That is outside of the memory, which pointers must not leave.
      view.data = reinterpret_cast<void*>(  // NOLINT(performance-no-int-to-ptr)
          begin - static_cast<std::uintptr_t>(before));
      params_.loads ? operands_.emplace_back(view) : operands_.emplace_back(given.in, view);
    }
    return operands_;
  }

 private:
  const RotateStoreParams& params_;
  std::vector<std::size_t> offsets_;
  std::unique_ptr<std::byte[]> memory_;
  std::byte* scratch_ = nullptr;
  std::vector<Operand> operands_;
};

/// The same norm, of other operands.
NormParams with_rotation(const NormParams& norm, const RotateParams& rotation) {
  return {.rotation = rotation,
          .tables = norm.tables,
          .device_tables = {},
          .adds_one = norm.adds_one,
          .norm = norm.norm,
          .rounding = norm.rounding,
          .order = norm.order};
}

/// Loads, rotates and stores the tokens of one range.
void run_range(const RotateStoreParams& params, const CpuPlan& plan, const TokenRange& at,
               ScratchOperands& scratch) {
  const std::span<const Operand> operands = scratch.at(at);
  const auto for_each_stored = [&](const auto& work) {
    for (std::size_t i = 0; i < operands.size(); ++i) {
      if (params.stores[i] == nullptr) continue;
      work(block_of(*params.stores[i], operands[i].out, at, params.slots));
    }
  };
  if (params.loads) for_each_stored(load_tokens);
  RotateParams rotation = params.rotation;
  rotation.operands = operands;
  const std::int64_t rank = at.batch * at.tokens;
  if (params.norm == nullptr) {
    rotate_tokens_on_cpu(rotation, plan, rank + at.first, rank + at.last);
  } else {
    norm_rotate_tokens_on_cpu(with_rotation(*params.norm, rotation), rank + at.first,
                              rank + at.last);
  }
  for_each_stored(store_tokens);
  for (const StoreCopy& copy : params.copies) {
    store_tokens(block_of(copy.to, copy.from, at, params.slots));
  }
}

/// Scratch memory is cached, whatever the call is like; other results are written as rotate() does.
CpuPlan make_store_plan(const RotateStoreParams& params, const Threads& threads) {
  CpuPlan plan = make_cpu_plan(params.rotation, threads);
  plan.token_order = TokenOrder::kBatchOuter;
  const bool is_auto = params.rotation.order.heads == HeadOrder::kAuto;
  for (std::size_t i = 0; i < params.rotation.operands.size(); ++i) {
    if (params.stores[i] == nullptr) continue;
    plan.store_modes[i] = StoreMode::kCached;
    if (is_auto) plan.head_orders[i] = HeadOrder::kColumns;
  }
  return plan;
}

}  // namespace

void rotate_store_on_cpu(const RotateStoreParams& params, const Threads& threads) {
  const CpuPlan plan = make_store_plan(params, threads);
  std::int64_t token_bytes = 1;
  for (std::size_t i = 0; i < params.rotation.operands.size(); ++i) {
    if (params.stores[i] == nullptr) continue;
    token_bytes += bytes_of_token(params.rotation.operands[i].in);
  }
  const std::int64_t tokens = params.rotation.operands.front().in.shape[1];
  const std::int64_t max_tokens =
      std::clamp<std::int64_t>(kScratchBytes / token_bytes, 1, plan.num_tokens);
  const auto run = [&](int task) {
    ScratchOperands scratch(params, max_tokens);
    for_each_range(plan.num_tokens * task / plan.tasks, plan.num_tokens * (task + 1) / plan.tasks,
                   tokens, max_tokens,
                   [&](const TokenRange& at) { run_range(params, plan, at, scratch); });
  };
  run_tasks(threads, plan.tasks, std::ref(run));
}

void store_on_cpu(std::span<const StoreCopy> copies, const std::int64_t* slots,
                  const Threads& threads) {
  std::int64_t bytes = 0;
  for (const StoreCopy& copy : copies) bytes += bytes_of(copy.from);
  if (bytes == 0) return;
  const std::int64_t tokens = copies.front().from.shape[1];
  const std::int64_t all = copies.front().from.shape[0] * tokens;
  const std::int64_t max_tasks = std::clamp<std::int64_t>(bytes / kTaskBytes, 1, all);
  const int tasks =
      max_tasks == 1 ? 1 : static_cast<int>(std::min<std::int64_t>(max_tasks, count_of(threads)));
  const auto run = [&](int task) {
    for_each_range(all * task / tasks, all * (task + 1) / tasks, tokens, tokens,
                   [&](const TokenRange& at) {
                     for (const StoreCopy& copy : copies) {
                       store_tokens(block_of(copy.to, copy.from, at, slots));
                     }
                   });
  };
  run_tasks(threads, tasks, std::ref(run));
}

}  // namespace rotary::internal
