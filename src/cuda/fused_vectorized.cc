// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

#include "cuda/fused_vectorized.h"

#include <algorithm>
#include <bit>
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
bool fill_operand(const FusedParams<SimpleParams>& p, int k, FusedTileOperand& to) noexcept {
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

}  // namespace

bool make_fused_vectorized(const FusedParams<SimpleParams>& p, FusedVectorizedParams& to) noexcept {
  const auto per_pack = static_cast<std::int32_t>(kPackBytes / size_of(p.type));
  const std::int32_t lanes = p.pairs / per_pack;
  bool normalizes = false;
  for (int k = 0; k < p.num_operands; ++k) normalizes = normalizes || p.fused[k].normalizes;
  if (p.num_operands > kFusedVectorizedOperands || p.read != p.write || p.rotary_offset != 0 ||
      p.pair_count != p.pairs || p.head_dim != 2 * p.pairs || p.pairs % per_pack != 0 ||
      !is_power_of_two(lanes) || lanes < 2 || lanes > kWarpLanes) {
    return false;
  }
  if (normalizes && (p.norm.has_mean || p.norm.across_heads || p.norm.after_rotation ||
                     p.norm.sum_lanes != kWarpLanes)) {
    return false;
  }
  if (!fill_vectorized_angles(p, p.read == Pairing::kHalf ? Layout::kHalf : Layout::kInterleaved,
                              to.angles)) {
    return false;
  }
  to.angles.fragments = lanes;
  for (int k = 0; k < p.num_operands; ++k) {
    if (!fill_operand(p, k, to.operands[k])) return false;
  }
  to.pair_shift = static_cast<std::uint32_t>(std::countr_zero(static_cast<std::uint32_t>(p.pairs)));
  to.eps = p.norm.eps;
  to.reciprocal_size = 1.0f / static_cast<float>(p.head_dim);
  to.adds_one = p.norm.adds_one;
  to.rounds_between = p.norm.rounds_between;
  std::copy(std::begin(p.stores), std::end(p.stores), to.stores);
  to.slots = p.slots;
  return true;
}

FusedVectorizedShape shape_fused_vectorized(std::int32_t heads, std::int32_t max_threads,
                                            std::int32_t max_tokens,
                                            FusedVectorizedParams& to) noexcept {
  constexpr std::uint32_t kFactorOne = 65536;
  const std::int32_t lanes = to.angles.fragments;
  const std::int32_t warp_slots = kWarpLanes / lanes;
  const std::int32_t max_slots = std::max(1, max_threads / kWarpLanes) * warp_slots;
  FusedVectorizedShape shape;
  // Slots for the operand that fills a block best; the others have more tokens in a block.
  std::int32_t slots = warp_slots;
  for (const FusedTileOperand& o : to.operands) {
    if (o.heads == 0) continue;
    const std::int32_t groups = ceil_div(o.heads, heads);
    const std::int32_t tokens = std::min(max_tokens, std::max(1, max_slots / groups));
    slots = std::max(slots, std::min(max_slots, groups * tokens));
  }
  slots = ceil_div(slots, warp_slots) * warp_slots;
  for (int k = 0; k < kFusedVectorizedOperands; ++k) {
    FusedTileOperand& o = to.operands[k];
    to.first_tile[k] = o.heads == 0 ? kNoTile : shape.tiles;
    if (o.heads == 0) continue;
    const std::int32_t groups = ceil_div(o.heads, heads);
    o.splits = static_cast<std::uint32_t>(ceil_div(groups, slots));
    o.groups = static_cast<std::uint32_t>(ceil_div(groups, static_cast<std::int32_t>(o.splits)));
    o.tokens = o.splits > 1 ? 1u : static_cast<std::uint32_t>(slots) / o.groups;
    o.group_factor = (kFactorOne + o.groups - 1) / o.groups;
    const auto tokens = static_cast<std::uint32_t>(to.angles.tokens);
    shape.tiles += (tokens + o.tokens - 1) / o.tokens * o.splits;
    shape.shared_bytes = std::max(
        shape.shared_bytes,
        o.rotates ? o.tokens * 2 * static_cast<std::uint32_t>(to.angles.row_size) * 4u : 0u);
  }
  shape.slots = static_cast<std::uint32_t>(slots);
  return shape;
}

}  // namespace rotary::internal::cuda
