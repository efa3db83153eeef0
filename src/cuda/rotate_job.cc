// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

#include "cuda/rotate_job.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "cuda/angles.h"
#include "cuda/part.h"
#include "cuda/rotate.h"

namespace rotary::internal::cuda {
namespace {

/// Which parameters say where z comes from.
enum class Kind : std::uint8_t { kSimple, kAny, kTable };

/// What the launches of a job share.
struct Plan {
  Kind kind = Kind::kSimple;
  std::int64_t step = kSimplePairs;  // pairs of a launch
  bool overlaps = false;
  cudaStream_t stream = nullptr;
};

/// What one launch takes.
struct Part {
  const Group& group;
  Rows rows;
  PairRange pairs;
};

bool mixes(const Job& job) noexcept { return job.read != job.write; }

bool has_in_place(const Job& job) noexcept {
  return std::any_of(job.operands.begin(), job.operands.end(), is_in_place);
}

Plan make_plan(const Job& job) noexcept {
  if (job.source.table != nullptr) return {.kind = Kind::kTable, .step = kAnyPairs};
  // Pairs that must stay together find more room in AnyParams.
  const bool together = mixes(job) && has_in_place(job) && job.pairs > kSimplePairs;
  if (!together && is_simple(job.source, job.positions)) return {};
  return {.kind = Kind::kAny, .step = most_pairs(job.source, job.positions)};
}

/// Whether all pairs of a head must be in one launch, but do not fit: in place with two pairings,
/// where a pair's target is another one's source. The head is then turned in place in several
/// launches, and its elements put in order by one more.
bool reorders(const Job& job, const Plan& plan, const Operand& x) noexcept {
  return mixes(job) && is_in_place(x) && plan.step < job.pairs;
}

void fill_operand(const HeadSlice& slice, const Rows& rows, OperandParams& o) noexcept {
  const ConstTensorView& in = slice.operand->in;
  const TensorView& out = slice.operand->out;
  const auto in_size = static_cast<std::int64_t>(size_of(in.dtype));
  const auto out_size = static_cast<std::int64_t>(size_of(out.dtype));
  const std::size_t token = rows.batch_as_tokens ? 0 : 1;
  const std::int64_t whole_rows = rows.batch_as_tokens ? 0 : 1;
  o.in_batch = whole_rows * in.strides[0] * in_size;
  o.in_token = in.strides[token] * in_size;
  o.in_head = in.strides[2] * in_size;
  o.in_element = in.strides[3] * in_size;
  o.out_batch = whole_rows * out.strides[0] * out_size;
  o.out_token = out.strides[token] * out_size;
  o.out_head = out.strides[2] * out_size;
  o.out_element = out.strides[3] * out_size;
  o.in = static_cast<const char*>(in.data) + rows.first_batch * o.in_batch +
         rows.first_token * o.in_token + slice.first_head * o.in_head;
  o.out = static_cast<char*>(out.data) + rows.first_batch * o.out_batch +
          rows.first_token * o.out_token + slice.first_head * o.out_head;
  o.out_scale = slice.operand->out_scale;
}

void fill_common(const Job& job, const Plan& plan, const Part& part, RotateParams& p) noexcept {
  const Group& group = part.group;
  const Operand& first = *group.slices[0].operand;
  p.num_operands = group.count;
  for (int k = 0; k < group.count; ++k) {
    fill_operand(group.slices[k], part.rows, p.operands[k]);
    p.first_head[k] = p.num_heads;
    p.num_heads += static_cast<std::int32_t>(group.slices[k].heads);
  }
  fill_positions(job.positions, part.rows, p.positions);
  p.tokens = part.rows.tokens;
  p.batch = static_cast<std::int32_t>(part.rows.batch);
  p.head_dim = static_cast<std::int32_t>(first.in.shape[3]);
  p.rotary_offset = static_cast<std::int32_t>(job.rotary_offset);
  p.pairs = static_cast<std::int32_t>(job.pairs);
  p.first_pair = static_cast<std::int32_t>(part.pairs.first);
  p.pair_count = static_cast<std::int32_t>(part.pairs.count);
  p.type = first.in.dtype;
  p.out_type = first.out.dtype;
  p.read = job.read;
  p.write = reorders(job, plan, first) ? job.read : job.write;
  p.inverts = job.direction == Direction::kInverse;
  p.conjugates = job.direction != Direction::kForward;
  p.copies_rest = part.pairs.first == 0 && p.head_dim > 2 * p.pairs && !is_in_place(first);
  p.overlaps = plan.overlaps;
}

cudaError_t launch_table(const Job& job, const Plan& plan, const Part& part) noexcept {
  TableParams p{};
  fill_common(job, plan, part, p);
  const CosSinTable& table = *job.source.table;
  const Pairing pairing = job.direction == Direction::kForward ? job.read : job.write;
  const bool skips =
      job.source.width == TableWidth::kTwicePairs && pairing == Pairing::kInterleaved;
  const auto fill = [&](const ConstTensorView& view, std::int64_t(&strides)[3]) {
    strides[0] = view.shape[0] == 1 ? 0 : view.strides[0];
    strides[1] = view.strides[1];
    strides[2] = skips ? 2 * view.strides[2] : view.strides[2];
    return static_cast<const char*>(view.data) +
           part.rows.first_batch * strides[0] * static_cast<std::int64_t>(size_of(view.dtype));
  };
  p.cos = fill(table.cos, p.cos_strides);
  p.sin = fill(table.sin, p.sin_strides);
  p.rows = table.cos.shape[1];
  p.table_type = table.cos.dtype;
  return rotate(p, plan.stream);
}

cudaError_t launch_simple(const Job& job, const Plan& plan, const Part& part) noexcept {
  SimpleParams p{};
  fill_common(job, plan, part, p);
  fill_size(job.source, job.direction, p);
  fill_fractions(job.source, job.positions, part.pairs, p);
  return rotate(p, plan.stream);
}

cudaError_t launch_any(const Job& job, const Plan& plan, const Part& part) noexcept {
  AnyParams p{};
  fill_common(job, plan, part, p);
  fill_size(job.source, job.direction, p);
  fill_words(job.source, job.positions, part.pairs, p);
  return rotate(p, plan.stream);
}

cudaError_t launch_reorder(const Job& job, const Plan& plan, const Part& part) noexcept {
  RotateParams p{};
  fill_common(job, plan, part, p);
  p.read = job.read;
  p.write = job.write;
  return reorder(p, plan.stream);
}

cudaError_t launch_pairs(const Job& job, const Plan& plan, Part part) noexcept {
  for (; part.pairs.first < job.pairs; part.pairs.first += plan.step) {
    part.pairs.count = std::min(plan.step, job.pairs - part.pairs.first);
    const cudaError_t error = plan.kind == Kind::kTable    ? launch_table(job, plan, part)
                              : plan.kind == Kind::kSimple ? launch_simple(job, plan, part)
                                                           : launch_any(job, plan, part);
    if (error != cudaSuccess) return error;
  }
  const Operand& first = *part.group.slices[0].operand;
  return reorders(job, plan, first) ? launch_reorder(job, plan, part) : cudaSuccess;
}

/// Whether a decoding step may be turned round: packed sequences and tables with rows for each
/// batch row look at the batch row itself.
bool may_turn(const Job& job) noexcept {
  const CosSinTable* table = job.source.table;
  return job.positions.kind() != Positions::Kind::kPacked &&
         (table == nullptr || table->cos.shape[0] == 1);
}

}  // namespace

cudaError_t rotate_job(const Job& job, bool overlaps, cudaStream_t stream) noexcept {
  Plan plan = make_plan(job);
  plan.overlaps = overlaps;
  plan.stream = stream;
  Groups groups(job.operands);
  Group group;
  while (groups.next(group)) {
    const Dims& shape = group.slices[0].operand->in.shape;
    const cudaError_t error =
        for_each_rows(shape[0], shape[1], may_turn(job), [&](const Rows& rows) {
          return launch_pairs(job, plan, {.group = group, .rows = rows, .pairs = {}});
        });
    if (error != cudaSuccess) return error;
  }
  return cudaSuccess;
}

}  // namespace rotary::internal::cuda
