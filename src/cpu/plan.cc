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
constexpr std::int64_t kLineBytes = 64;                       // a cache line
constexpr std::int64_t kLongTokenBytes = 1024;  // partial lines at both ends cost little
constexpr std::int64_t kArmBlockTokens = 256;
constexpr std::int64_t kManyHeads = 8;  // angles cost less than visiting tokens out of order

/// Only x86 has non-temporal stores that avoid reading the lines they fill. Other CPUs detect by
/// themselves that whole lines are written.
#if defined(__x86_64__)
constexpr bool kHasStreamStores = true;
#else
constexpr bool kHasStreamStores = false;
#endif

bool is_in_place(const Operand& x) noexcept { return x.in.data == x.out.data; }

/// Whether the kernels of rotate_dense-inl.h apply.
bool is_dense(const RotateParams& params, const Operand& x) noexcept {
  return x.in.strides[3] == 1 && x.out.strides[3] == 1 && params.read == params.write;
}

/// Whether every run of results begins and ends on a cache line, which is the widest vector, too.
bool is_on_lines(const RotateParams& params, const Operand& x) noexcept {
  const auto size = static_cast<std::int64_t>(size_of(x.out.dtype));
  const auto aligned = [size](std::int64_t elements) { return elements * size % kLineBytes == 0; };
  const std::int64_t run = params.write == Pairing::kHalf ? params.pairs : 2 * params.pairs;
  return reinterpret_cast<std::uintptr_t>(x.out.data) % kLineBytes == 0 &&
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

/// Where the tensors of a task are expected: in the core's second-level cache or in memory.
enum class Locality : std::uint8_t { kCache, kMemory };

/// The default order of an operand, as measured (docs/performance.md). In cache, loads of cos and
/// sin count, which columns save. In memory:
///   x86   line by line in every case
///   Arm   a core writes whole lines past its caches, without reading them, as long as it finishes
///         one before it begins the next. Lines that x and y share, or that two vectors of x do not
///         fill, must be written in the order of addresses.
HeadOrder head_order_of(const RotateParams& params, const Operand& x, Locality locality) noexcept {
  if (locality == Locality::kCache) return HeadOrder::kColumns;
  if (kHasStreamStores || params.write == Pairing::kInterleaved) return HeadOrder::kLines;
  if (is_in_place(x) || is_on_lines(params, x)) return HeadOrder::kLines;
  return HeadOrder::kAddress;
}

/// The default block. On x86, tensors take turns with every token; on Arm, alternating streams of
/// results are slower than longer ones.
std::int64_t block_tokens_of(const RotateParams& params, Locality locality) noexcept {
  if (kHasStreamStores || locality == Locality::kCache || params.operands.size() < 2) return 1;
  return kArmBlockTokens;
}

/// Large results out of place bypass the caches, where the CPU has stores for it. `written` are the
/// bytes of all results.
StoreMode store_mode_of(const RotateParams& params, const CpuPlan& plan, std::size_t i,
                        std::int64_t written) noexcept {
  const Operand& x = params.operands[i];
  if (!kHasStreamStores || written < kStreamBytes || is_in_place(x)) return StoreMode::kCached;
  if (plan.head_orders[i] == HeadOrder::kAddress) return StoreMode::kCached;
  if (is_dense(params, x) && is_on_lines(params, x)) return StoreMode::kStreamed;
  return can_combine(plan.token_order, x) ? StoreMode::kCombined : StoreMode::kCached;
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
  const std::int64_t max_tasks = std::min(plan.num_tokens, bytes / kTaskBytes);
  plan.tasks =
      max_tasks < 2 ? 1 : static_cast<int>(std::min<std::int64_t>(max_tasks, count_of(threads)));
  const Locality locality =
      bytes / plan.tasks <= kCacheBytes ? Locality::kCache : Locality::kMemory;
  const WriteOrder& order = params.order;
  plan.block_tokens = order.block > 0 ? order.block : block_tokens_of(params, locality);
  for (std::size_t i = 0; i < params.operands.size(); ++i) {
    plan.head_orders[i] = order.heads != HeadOrder::kAuto
                              ? order.heads
                              : head_order_of(params, params.operands[i], locality);
    plan.store_modes[i] = store_mode_of(params, plan, i, written);
    plan.has_stream_stores = plan.has_stream_stores || plan.store_modes[i] != StoreMode::kCached;
  }
  return plan;
}

WriteOrder write_order_on_cpu(const RotateParams& params, const Threads& threads) noexcept {
  const CpuPlan plan = make_cpu_plan(params, threads);
  return {.heads = plan.head_orders.front(), .block = plan.block_tokens};
}

}  // namespace rotary::internal
