// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

#include "cpu/plan.h"

#include <algorithm>
#include <cstddef>

#include "cpu/parallel.h"
#include "cpu/rotate_armv86.h"

namespace rotary::internal {
namespace {

constexpr std::int64_t kTaskBytes = std::int64_t{1} << 18;    // some 20 us: worth a thread
constexpr std::int64_t kStreamBytes = std::int64_t{1} << 23;  // more than a core's share of caches
constexpr std::int64_t kLineBytes = 64;                       // a cache line
constexpr std::int64_t kLongTokenBytes = 1024;  // partial lines at both ends cost little
constexpr std::int64_t kArmBlockTokens = 256;
constexpr std::int64_t kManyHeads = 8;  // angles cost less than visiting tokens out of order

#if defined(__x86_64__)
constexpr bool kIsX86 = true;
constexpr std::int64_t kFirstLevelBytes = 32 << 10;
constexpr std::int64_t kSecondLevelBytes = 3 << 19;  // most of it
#else
constexpr bool kIsX86 = false;
constexpr std::int64_t kFirstLevelBytes = 64 << 10;
constexpr std::int64_t kSecondLevelBytes = 1 << 20;
#endif

/// Only x86 has non-temporal stores that avoid reading the lines they fill. Other CPUs detect by
/// themselves that whole lines are written.
constexpr bool kHasStreamStores = kIsX86;

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

/// Where the tensors of a task are expected: in a core's first-level or second-level cache, or in
/// memory.
enum class Locality : std::uint8_t { kFirstLevel, kSecondLevel, kMemory };

Locality locality_of(std::int64_t bytes) noexcept {
  if (bytes <= kFirstLevelBytes) return Locality::kFirstLevel;
  return bytes <= kSecondLevelBytes ? Locality::kSecondLevel : Locality::kMemory;
}

// The default orders, as measured (docs/performance.md). Where all is in a cache, loads of cos and
// sin count, which columns save; on Arm only in the first level.

HeadOrder head_order_on_x86(Locality locality) noexcept {
  return locality == Locality::kMemory ? HeadOrder::kLines : HeadOrder::kColumns;
}

/// A core writes whole lines past its caches, without reading them, as long as it finishes one
/// before it begins the next. A line that x and y share, or that two vectors of x do not fill, is
/// therefore written in the order of addresses. 16-bit types take longer to convert than to write;
/// bfloat16 on lines takes 3.1 or 4.0 times a copy by lines, and always 3.2 by address.
HeadOrder head_order_on_arm(const RotateParams& params, const Operand& x,
                            Locality locality) noexcept {
  if (locality == Locality::kFirstLevel) return HeadOrder::kColumns;
  if (locality == Locality::kSecondLevel || params.write == Pairing::kInterleaved ||
      is_in_place(x)) {
    return HeadOrder::kLines;
  }
  const bool on_lines = is_on_lines(params, x);
  if (x.in.dtype == DType::kFloat16) return HeadOrder::kLines;
  if (x.in.dtype == DType::kBFloat16) return on_lines ? HeadOrder::kAddress : HeadOrder::kLines;
  return on_lines ? HeadOrder::kLines : HeadOrder::kAddress;
}

/// Few long streams of results are faster than several short ones in turn, but one stream of loads
/// alone (in place, interleaved) is slower than two in turn.
std::int64_t block_tokens_on_arm(const RotateParams& params, Locality locality) noexcept {
  if (locality != Locality::kMemory || params.operands.size() < 2) return 1;
  const bool is_one_stream =
      params.write == Pairing::kInterleaved && is_in_place(params.operands.front());
  return is_one_stream ? 1 : kArmBlockTokens;
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
  plan.uses_armv86 = has_armv86();
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
  const Locality locality = locality_of(plan.tasks == 1 ? bytes : bytes / plan.tasks);
  const auto head_order_of = [&](const Operand& x) {
    return kIsX86 ? head_order_on_x86(locality) : head_order_on_arm(params, x, locality);
  };
  const WriteOrder& order = params.order;
  plan.block_tokens = order.block;
  if (order.block == 0) plan.block_tokens = kIsX86 ? 1 : block_tokens_on_arm(params, locality);
  for (std::size_t i = 0; i < params.operands.size(); ++i) {
    plan.head_orders[i] =
        order.heads != HeadOrder::kAuto ? order.heads : head_order_of(params.operands[i]);
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
