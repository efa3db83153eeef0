// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

#include "cuda/launch_rotation.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "cuda/angle_params.h"
#include "cuda/launch_split.h"
#include "cuda/rotate.h"

namespace rotary::internal::cuda {
namespace {

/// Kernel parameters by source of cos and sin.
enum class ParamsKind : std::uint8_t { kSimple, kGeneral, kTable };

/// What the launches of a rotation share.
struct LaunchPlan {
  ParamsKind kind = ParamsKind::kSimple;
  std::int64_t step = kMaxSimplePairs;  // pairs per launch
  bool overlaps = false;
  cudaStream_t stream = nullptr;
};

/// The part of a rotation that one launch handles.
struct LaunchSlice {
  const OperandGroup& group;
  TokenRange tokens;
  PairRange pairs;
};

bool changes_pairing(const RotateParams& params) noexcept { return params.read != params.write; }

bool has_in_place(const RotateParams& params) noexcept {
  return std::any_of(params.operands.begin(), params.operands.end(), is_in_place);
}

LaunchPlan make_plan(const RotateParams& params) noexcept {
  if (params.source.table != nullptr) return {.kind = ParamsKind::kTable, .step = kMaxGeneralPairs};
  // In place with a change of pairing, a head's pairs should share one launch: GeneralParams hold
  // more of them.
  const bool wants_one_launch =
      changes_pairing(params) && has_in_place(params) && params.pairs > kMaxSimplePairs;
  if (!wants_one_launch && is_simple(params.source, params.positions)) return {};
  return {.kind = ParamsKind::kGeneral, .step = max_pairs(params.source, params.positions)};
}

/// In place with a change of pairing, a pair's output overlaps another pair's input, so all pairs
/// of a head must be in one launch. Where they do not fit, the head is rotated in its own pairing
/// by several launches, and a final launch permutes its elements.
bool reorders(const RotateParams& params, const LaunchPlan& plan, const Operand& x) noexcept {
  return changes_pairing(params) && is_in_place(x) && plan.step < params.pairs;
}

void fill_common(const RotateParams& params, const LaunchPlan& plan, const LaunchSlice& slice,
                 KernelParams& p) noexcept {
  const OperandGroup& group = slice.group;
  const Operand& first = *group.slices[0].operand;
  p.num_operands = group.count;
  for (int k = 0; k < group.count; ++k) {
    fill_operand(group.slices[k], slice.tokens, p.operands[k]);
    p.first_head[k] = p.num_heads;
    p.num_heads += static_cast<std::int32_t>(group.slices[k].heads);
  }
  fill_positions(params.positions, slice.tokens, p.positions);
  p.tokens = slice.tokens.tokens;
  p.batch = static_cast<std::int32_t>(slice.tokens.batch);
  p.head_dim = static_cast<std::int32_t>(first.in.shape[3]);
  p.rotary_offset = static_cast<std::int32_t>(params.rotary_offset);
  p.pairs = static_cast<std::int32_t>(params.pairs);
  p.first_pair = static_cast<std::int32_t>(slice.pairs.first);
  p.pair_count = static_cast<std::int32_t>(slice.pairs.count);
  p.type = first.in.dtype;
  p.out_type = first.out.dtype;
  p.read = params.read;
  p.write = reorders(params, plan, first) ? params.read : params.write;
  p.inverts = params.direction == Direction::kInverse;
  p.conjugates = params.direction != Direction::kForward;
  p.copies_pass_through = slice.pairs.first == 0 && p.head_dim > 2 * p.pairs && !is_in_place(first);
  p.overlaps = plan.overlaps;
}

cudaError_t launch_table(const RotateParams& params, const LaunchPlan& plan,
                         const LaunchSlice& slice) noexcept {
  TableParams p{};
  fill_common(params, plan, slice, p);
  fill_table(params, slice.tokens, p);
  return rotate(p, plan.stream);
}

/// cos and sin from frequencies; Params: SimpleParams or GeneralParams.
template <typename Params>
cudaError_t launch_frequencies(const RotateParams& params, const LaunchPlan& plan,
                               const LaunchSlice& slice) noexcept {
  Params p{};
  fill_common(params, plan, slice, p);
  fill_magnitude(params.source, params.direction, p);
  if constexpr (std::is_same_v<Params, SimpleParams>) {
    fill_fractions(params.source, params.positions, slice.pairs, p);
  } else {
    fill_words(params.source, params.positions, slice.pairs, p);
  }
  return rotate(p, plan.stream);
}

cudaError_t launch_slice(const RotateParams& params, const LaunchPlan& plan,
                         const LaunchSlice& slice) noexcept {
  switch (plan.kind) {
    case ParamsKind::kSimple:
      return launch_frequencies<SimpleParams>(params, plan, slice);
    case ParamsKind::kGeneral:
      return launch_frequencies<GeneralParams>(params, plan, slice);
    case ParamsKind::kTable:
      break;
  }
  return launch_table(params, plan, slice);
}

cudaError_t launch_reorder(const RotateParams& params, const LaunchPlan& plan,
                           const LaunchSlice& slice) noexcept {
  KernelParams p{};
  fill_common(params, plan, slice, p);
  p.read = params.read;
  p.write = params.write;
  return reorder(p, plan.stream);
}

cudaError_t launch_pairs(const RotateParams& params, const LaunchPlan& plan,
                         LaunchSlice slice) noexcept {
  for (; slice.pairs.first < params.pairs; slice.pairs.first += plan.step) {
    slice.pairs.count = std::min(plan.step, params.pairs - slice.pairs.first);
    const cudaError_t error = launch_slice(params, plan, slice);
    if (error != cudaSuccess) return error;
  }
  const Operand& first = *slice.group.slices[0].operand;
  return reorders(params, plan, first) ? launch_reorder(params, plan, slice) : cudaSuccess;
}

}  // namespace

cudaError_t launch_rotation(const RotateParams& params, bool overlaps,
                            cudaStream_t stream) noexcept {
  LaunchPlan plan = make_plan(params);
  plan.overlaps = overlaps;
  plan.stream = stream;
  OperandGroups groups(params.operands);
  OperandGroup group;
  while (groups.next(group)) {
    const Dims& shape = group.slices[0].operand->in.shape;
    const cudaError_t error = for_each_token_range(
        shape[0], shape[1], may_transpose(params), [&](const TokenRange& range) {
          return launch_pairs(params, plan, {.group = group, .tokens = range, .pairs = {}});
        });
    if (error != cudaSuccess) return error;
  }
  return cudaSuccess;
}

}  // namespace rotary::internal::cuda
