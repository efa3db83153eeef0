// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

#include "cpu/plan.h"

#include <algorithm>
#include <cstddef>

#include "cpu/parallel.h"

namespace rotary::internal {
namespace {

constexpr std::int64_t kCacheBytes = std::int64_t{3} << 19;   // most of a second-level cache
constexpr std::int64_t kTaskBytes = std::int64_t{1} << 18;    // some 20 us: worth a thread
constexpr std::int64_t kStreamBytes = std::int64_t{1} << 23;  // more than a core's share of caches
constexpr std::int64_t kStreamAlignment = 64;                 // the widest vector
constexpr std::int64_t kLongTokenBytes = 1024;  // partial lines at both ends cost little
constexpr std::int64_t kManyHeads = 8;  // angles cost less than visiting tokens out of order

/// Only x86 has non-temporal stores that avoid reading the lines they fill. Other CPUs detect by
/// themselves that whole lines are written.
#if defined(__x86_64__)
constexpr bool kHasStreamStores = true;
#else
constexpr bool kHasStreamStores = false;
#endif

bool is_in_place(const Operand& x) noexcept { return x.in.data == x.out.data; }

/// Whether every run of results is aligned to the widest vector.
bool can_stream(const RotateParams& params, const Operand& x) noexcept {
  if (x.in.strides[3] != 1 || x.out.strides[3] != 1 || params.read != params.write) return false;
  const auto size = static_cast<std::int64_t>(size_of(x.out.dtype));
  const auto aligned = [size](std::int64_t elements) {
    return elements * size % kStreamAlignment == 0;
  };
  const std::int64_t run = params.write == Pairing::kHalf ? params.pairs : 2 * params.pairs;
  return reinterpret_cast<std::uintptr_t>(x.out.data) % kStreamAlignment == 0 &&
         aligned(params.rotary_offset) && aligned(run) && aligned(x.out.strides[0]) &&
         aligned(x.out.strides[1]) && aligned(x.out.strides[2]);
}

/// Whether the heads of a token are contiguous and fill many lines, alone or with those of the next
/// token.
bool can_combine(TokenOrder order, const Operand& x) noexcept {
  const auto size = static_cast<std::int64_t>(size_of(x.out.dtype));
  const std::int64_t head = x.out.shape[3];
  const std::int64_t token = x.out.shape[2] * head;
  const bool contiguous_tokens = x.out.strides[1] == token && order == TokenOrder::kBatchOuter;
  return x.out.strides[3] == 1 && x.out.strides[2] == head && head * size <= kMaxCombinedBytes &&
         (contiguous_tokens || token * size >= kLongTokenBytes);
}

/// Large results out of place bypass the caches, where the CPU has stores for it. `written` are the
/// bytes of all results.
StoreMode store_mode_of(const RotateParams& params, TokenOrder order, const Operand& x,
                        std::int64_t written) noexcept {
  if (!kHasStreamStores || written < kStreamBytes || is_in_place(x)) return StoreMode::kCached;
  if (can_stream(params, x)) return StoreMode::kStreamed;
  return can_combine(order, x) ? StoreMode::kCombined : StoreMode::kCached;
}

}  // namespace

CpuPlan make_cpu_plan(const RotateParams& params, const Threads& threads) noexcept {
  CpuPlan plan;
  const Dims& shape = params.operands.front().in.shape;
  const std::int64_t batch = shape[0];
  plan.num_tokens = batch * shape[1];
  std::int64_t heads = 0;
  std::int64_t bytes = 0;
  std::int64_t written = 0;
  for (const Operand& x : params.operands) {
    const std::int64_t size = x.in.num_elements() * static_cast<std::int64_t>(size_of(x.in.dtype));
    heads += x.in.shape[2];
    bytes += is_in_place(x) ? size : 2 * size;
    written += size;
    (x.in.dtype == DType::kFloat64 ? plan.uses_double : plan.uses_float) = true;
  }
  const bool shares_angles =
      params.positions.batch() < 0 &&
      (params.source.table == nullptr || params.source.table->cos.shape[0] == 1);
  if (shares_angles && batch > 1 && heads < kManyHeads) plan.token_order = TokenOrder::kTokenOuter;
  for (std::size_t i = 0; i < params.operands.size(); ++i) {
    plan.store_modes[i] = store_mode_of(params, plan.token_order, params.operands[i], written);
    plan.has_stream_stores = plan.has_stream_stores || plan.store_modes[i] != StoreMode::kCached;
  }
  const std::int64_t max_tasks = std::min(plan.num_tokens, bytes / kTaskBytes);
  plan.tasks =
      max_tasks < 2 ? 1 : static_cast<int>(std::min<std::int64_t>(max_tasks, count_of(threads)));
  plan.locality = bytes / plan.tasks <= kCacheBytes ? Locality::kCache : Locality::kMemory;
  return plan;
}

}  // namespace rotary::internal
