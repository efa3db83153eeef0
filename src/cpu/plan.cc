// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

#include "cpu/plan.h"

#include <algorithm>
#include <cstddef>

#include "cpu/parallel.h"
#include "cpu/targets.h"

namespace rotary::internal {
namespace {

constexpr std::int64_t kNearBytes = std::int64_t{3} << 19;    // most of a second-level cache
constexpr std::int64_t kTaskBytes = std::int64_t{1} << 18;    // some 20 us: worth a thread
constexpr std::int64_t kStreamBytes = std::int64_t{1} << 23;  // more than a core's share of caches
constexpr std::int64_t kStreamAlignment = 64;                 // the widest vector
constexpr std::int64_t kLongToken = 1024;                     // of which two lines are little
constexpr std::int64_t kManyHeads = 8;  // from here on angles cost less than jumping in memory

/// Only x86 has stores that spare reading the lines they fill; elsewhere the hardware sees by
/// itself that lines are filled.
#if defined(__x86_64__)
constexpr bool kHasStreams = true;
#else
constexpr bool kHasStreams = false;
#endif

bool same_memory(const Operand& x) noexcept { return x.in.data == x.out.data; }

/// Every head begins at a multiple of the widest vector, before and after.
bool can_stream(const Job& job, const Operand& x) noexcept {
  if (x.in.strides[3] != 1 || x.out.strides[3] != 1 || job.read != job.write) return false;
  const auto size = static_cast<std::int64_t>(size_of(x.out.dtype));
  const auto aligned = [size](std::int64_t elements) {
    return elements * size % kStreamAlignment == 0;
  };
  const std::int64_t halves = job.write == Pairing::kHalf ? job.pairs : 2 * job.pairs;
  return reinterpret_cast<std::uintptr_t>(x.out.data) % kStreamAlignment == 0 &&
         aligned(job.rotary_offset) && aligned(halves) && aligned(x.out.strides[0]) &&
         aligned(x.out.strides[1]) && aligned(x.out.strides[2]);
}

/// The heads of a token follow each other, and fill many lines, alone or with the next token's.
bool can_stage(const Plan& plan, const Operand& x) noexcept {
  const auto size = static_cast<std::int64_t>(size_of(x.out.dtype));
  const std::int64_t head = x.out.shape[3];
  const std::int64_t token = x.out.shape[2] * head;
  const bool follow = x.out.strides[1] == token && !plan.tokens_first;
  return x.out.strides[3] == 1 && x.out.strides[2] == head && head * size <= kStageBytes &&
         (follow || token * size >= kLongToken);
}

/// Large results out of place go past the caches, where there are stores for it.
Delivery delivery_of(const Job& job, const Plan& plan, const Operand& x,
                     std::int64_t written) noexcept {
  if (!kHasStreams || written < kStreamBytes || same_memory(x)) return Delivery::kCached;
  if (can_stream(job, x)) return Delivery::kStreamed;
  return can_stage(plan, x) ? Delivery::kStaged : Delivery::kCached;
}

/// Operands of one call share their pairings, so that never two forms are wanted besides kPlain.
RowForm form_for(const Job& job, const Operand& x) noexcept {
  const bool dense = x.in.strides[3] == 1 && x.out.strides[3] == 1;
  const bool words = x.in.dtype == DType::kBFloat16 && !has_armv86();  // see TurnsOf
  if (!dense || job.read != job.write) return RowForm::kPlain;
  if (job.read == Pairing::kHalf) return words ? RowForm::kSorted : RowForm::kPlain;
  return words ? RowForm::kPlain : RowForm::kSpread;
}

}  // namespace

Plan make_plan(const Job& job, const Threads& threads) noexcept {
  Plan plan;
  const Dims& shape = job.operands.front().in.shape;
  const std::int64_t batch = shape[0];
  plan.rows = batch * shape[1];
  std::int64_t heads = 0;
  std::int64_t bytes = 0;
  std::int64_t written = 0;
  for (const Operand& x : job.operands) {
    const std::int64_t size = x.in.num_elements() * static_cast<std::int64_t>(size_of(x.in.dtype));
    heads += x.in.shape[2];
    bytes += same_memory(x) ? size : 2 * size;
    written += size;
    (x.in.dtype == DType::kFloat64 ? plan.uses_double : plan.uses_float) = true;
    const RowForm form = form_for(job, x);
    if (form != RowForm::kPlain) plan.form = form;
  }
  const bool shared = job.positions.batch() < 0 &&
                      (job.source.table == nullptr || job.source.table->cos.shape[0] == 1);
  plan.tokens_first = shared && batch > 1 && heads < kManyHeads;
  for (std::size_t i = 0; i < job.operands.size(); ++i) {
    plan.delivery[i] = delivery_of(job, plan, job.operands[i], written);
    plan.streams_any = plan.streams_any || plan.delivery[i] != Delivery::kCached;
  }
  const std::int64_t most = std::min(plan.rows, bytes / kTaskBytes);
  plan.tasks = most < 2 ? 1 : static_cast<int>(std::min<std::int64_t>(most, count_of(threads)));
  plan.locality = bytes / plan.tasks <= kNearBytes ? Locality::kNear : Locality::kFar;
  return plan;
}

}  // namespace rotary::internal
