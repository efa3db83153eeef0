// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

#include "cuda/fused_vectorized.h"

#include <algorithm>
#include <cstdint>

#include "cuda/launch_shape.h"

namespace rotary::internal::cuda {
namespace {

constexpr std::int32_t kWarpLanes = 32;

bool is_power_of_two(std::int32_t n) noexcept { return n > 0 && (n & (n - 1)) == 0; }

bool fits_store(const StoreParams& store, DType type, std::int32_t per_pack) noexcept {
  const bool is_quantized = is_float8(store.type) || store.type == DType::kInt8;
  if (store.computed != nullptr || store.groups != 1 || (!is_quantized && store.type != type)) {
    return false;
  }
  return is_aligned_to(store.data, is_quantized ? per_pack : kPackBytes, store.block_stride,
                       store.token_stride, store.head_stride);
}

/// Strides in packs and what the norm needs; false where an operand does not fit.
template <class Angles>
bool fill_operand(const FusedParams<Angles>& p, int k, FusedTileOperand& to) noexcept {
  const FusedOperand& f = p.fused[k];
  OperandParams o = p.operands[k];
  const auto size = static_cast<std::int64_t>(size_of(p.type));
  const auto per_pack = static_cast<std::int32_t>(kPackBytes / size);
  if (f.head_dim != p.head_dim || o.in_element != size ||
      !is_aligned_to(o.in, kPackBytes, o.in_batch, o.in_token, o.in_head)) {
    return false;
  }
  if (f.store != kNoStore) {
    if (!fits_store(p.stores[f.store], p.type, per_pack)) return false;
    o.out = nullptr;
    o.out_batch = o.out_token = o.out_head = 0;
  } else if (o.out_element != size ||
             !is_aligned_to(o.out, kPackBytes, o.out_batch, o.out_token, o.out_head)) {
    return false;
  }
  VectorizedOperand packs;
  if (!fill_vectorized_operand(p, o, packs)) return false;
  if (f.normalizes && f.weight != nullptr) {
    if (f.weight_type != p.type && f.weight_type != DType::kFloat32) return false;
    if (!is_aligned_to(f.weight, kPackBytes, 0, 0, 0)) return false;
  }
  const std::int32_t end = k + 1 < p.num_operands ? p.first_head[k + 1] : p.num_heads;
  to.in = packs.in;
  to.out = packs.out;
  to.weight = f.weight;
  to.in_batch = packs.in_batch;
  to.in_token = packs.in_token;
  to.in_head = packs.in_head;
  to.out_batch = packs.out_batch;
  to.out_token = packs.out_token;
  to.out_head = packs.out_head;
  to.heads = end - p.first_head[k];
  to.store = f.store;
  to.normalizes = f.normalizes;
  to.rotates = f.rotates;
  to.has_float_weight = f.weight_type == DType::kFloat32;
  return true;
}

bool fill_angles(const FusedParams<SimpleParams>& p, Layout layout,
                 FusedVectorizedParams& to) noexcept {
  return !p.norm.rounds_before_weight && fill_vectorized_angles(p, layout, to.angles);
}
bool fill_angles(const FusedParams<TableParams>& p, Layout layout,
                 FusedVectorizedParams& to) noexcept {
  return fill_vectorized_table(p, layout, to.angles, to.table);
}

template <class Angles>
bool make(const FusedParams<Angles>& p, bool may_store, FusedVectorizedParams& to) noexcept {
  const auto per_pack = static_cast<std::int32_t>(kPackBytes / size_of(p.type));
  const std::int32_t lanes = p.pairs / per_pack;
  bool normalizes = false;
  bool stores = false;
  bool is_plain = true;  // every operand has a norm and is rotated, as launches without stores must
  bool has_ended = false;
  for (int k = 0; k < p.num_operands; ++k) {
    const FusedOperand& f = p.fused[k];
    normalizes = normalizes || f.normalizes;
    stores = stores || f.store != kNoStore;
    is_plain = is_plain && f.normalizes && f.rotates;
    // Those that are rotated come first.
    if (has_ended && f.rotates) return false;
    has_ended = has_ended || !f.rotates;
  }
  if (stores ? !may_store : !is_plain) return false;
  if (p.num_operands > kFusedVectorizedOperands || p.read != p.write || p.rotary_offset != 0 ||
      p.pair_count != p.pairs || p.head_dim != 2 * p.pairs || p.pairs % per_pack != 0 ||
      !is_power_of_two(lanes) || lanes < kMinFusedLanes || lanes > kWarpLanes) {
    return false;
  }
  if (normalizes && (p.norm.has_mean || p.norm.across_heads || p.norm.after_rotation ||
                     p.norm.sum_lanes != kWarpLanes)) {
    return false;
  }
  if (!fill_angles(p, p.read == Pairing::kHalf ? Layout::kHalf : Layout::kInterleaved, to)) {
    return false;
  }
  to.angles.fragments = lanes;
  for (int k = 0; k < p.num_operands; ++k) {
    if (!fill_operand(p, k, to.operands[k])) return false;
  }
  to.eps = p.norm.eps;
  to.adds_one = p.norm.adds_one;
  to.rounds_before_weight = p.norm.rounds_before_weight;
  to.rounds_between = p.norm.rounds_between;
  std::copy(std::begin(p.stores), std::end(p.stores), to.stores);
  to.slots = p.slots;
  return true;
}

}  // namespace

bool make_fused_vectorized(const FusedParams<SimpleParams>& p, FusedVectorizedParams& to) noexcept {
  return make(p, /*may_store=*/true, to);
}
bool make_fused_vectorized(const FusedParams<TableParams>& p, FusedVectorizedParams& to) noexcept {
  return make(p, /*may_store=*/false, to);
}

namespace {

/// Divides the heads into steps of `step_heads`; returns their number.
std::int32_t number_steps(std::int32_t step_heads, FusedVectorizedParams& to) noexcept {
  std::int32_t steps = 0;
  for (FusedTileOperand& o : to.operands) {
    o.first_step = steps;
    steps += ceil_div(o.heads, step_heads);
    o.end_step = steps;
    if (o.rotates && o.heads > 0) to.rotated_steps = steps;  // those not there rotate, too
  }
  return steps;
}

std::uint32_t prefetching_blocks(std::int64_t prefetch_bytes, std::int32_t block_packs,
                                 const VectorizedParams& angles) noexcept {
  if (!angles.overlaps) return 0;
  return static_cast<std::uint32_t>(prefetch_bytes / (block_packs * kPackBytes));
}

}  // namespace

FusedVectorizedShape shape_fused_vectorized(std::int32_t batch, std::int32_t heads,
                                            std::int64_t max_warps, std::int64_t prefetch_bytes,
                                            FusedVectorizedParams& to) noexcept {
  const std::int32_t steps = number_steps(kWarpLanes / to.angles.fragments * heads, to);
  const std::int64_t max_parts = max_warps / (std::int64_t{batch} * to.angles.tokens);
  const auto parts = static_cast<std::int32_t>(std::clamp<std::int64_t>(max_parts, 1, steps));
  to.part_steps = ceil_div(steps, parts);
  // They prefetch their first step.
  to.angles.prefetch_blocks = prefetching_blocks(prefetch_bytes, kWarpLanes * 2 * heads, to.angles);
  return {.parts = static_cast<std::uint32_t>(ceil_div(steps, to.part_steps))};
}

FusedVectorizedShape shape_fused_block(std::int32_t lanes, std::int32_t heads,
                                       std::int32_t max_warps, std::int64_t prefetch_bytes,
                                       FusedVectorizedParams& to) noexcept {
  const std::int32_t warps_of_token = ceil_div(number_steps(kWarpLanes / lanes, to), heads);
  const std::int32_t parts = ceil_div(warps_of_token, max_warps);
  const std::int32_t warps = ceil_div(warps_of_token, parts);
  const std::int32_t packs_of_lane = 2 * to.angles.fragments / lanes;  // 2, or 1 of half packs
  to.angles.prefetch_blocks =
      prefetching_blocks(prefetch_bytes, warps * kWarpLanes * heads * packs_of_lane, to.angles);
  return {.parts = static_cast<std::uint32_t>(parts), .warps = static_cast<std::uint32_t>(warps)};
}

}  // namespace rotary::internal::cuda
