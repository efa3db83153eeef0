// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

#include "cuda/vectorized_params.h"

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <limits>

namespace rotary::internal::cuda {
namespace {

constexpr std::int32_t kMinThreads = 96;  // per block

/// Whether all offsets in a tensor, and their partial sums, fit 32 bits.
bool fits_int32(const KernelParams& p, std::int64_t bytes, std::int64_t batch, std::int64_t token,
                std::int64_t head) noexcept {
  const auto size = static_cast<std::int64_t>(size_of(p.type));
  constexpr std::int64_t kMax = std::numeric_limits<std::int32_t>::max() / 2;
  // Each stride is checked first, so that the products below cannot overflow 64 bits.
  for (const std::int64_t stride : {batch, token, head}) {
    if (std::abs(stride / bytes) > kMax) return false;
  }
  const std::int64_t reach =
      std::abs(batch / bytes) * p.batch + std::abs(token / bytes) * p.tokens +
      2 * std::abs(head / bytes) * p.num_heads + p.head_dim * size / kPackBytes;
  return reach <= kMax;
}

bool fill_positions(const KernelParams& p, VectorizedPositions& to) noexcept {
  const PositionParams& from = p.positions;
  constexpr std::int64_t kMax = std::numeric_limits<std::int32_t>::max();
  for (const std::int64_t value :
       {from.step, from.axis_stride, from.batch_stride, from.token_stride}) {
    if (value > kMax || value < -kMax) return false;
  }
  const std::int64_t reach = std::abs(from.axis_stride) * p.axes +
                             std::abs(from.batch_stride) * p.batch +
                             std::abs(from.token_stride) * p.tokens;
  if (reach > kMax) return false;
  if (from.boundaries != nullptr && from.first_token != 0) return false;
  to = {.start = from.start,
        .ids = static_cast<const char*>(from.ids),
        .step = static_cast<std::int32_t>(from.step),
        .axis_stride = static_cast<std::int32_t>(from.axis_stride),
        .batch_stride = static_cast<std::int32_t>(from.batch_stride),
        .token_stride = static_cast<std::int32_t>(from.token_stride),
        .boundaries = from.boundaries,
        .first = from.first,
        .sequences = from.sequences,
        .is_int32 = from.type == DType::kInt32};
  return true;
}

/// All but operands and frequencies.
bool fill_layout(const KernelParams& p, Layout layout, VectorizedParams& to) noexcept {
  if (!fill_positions(p, to.positions)) return false;
  const auto size = static_cast<std::int32_t>(size_of(p.type));
  const std::int32_t per_pack = static_cast<std::int32_t>(kPackBytes) / size;
  const bool halves = layout == Layout::kHalf;
  to.tokens = static_cast<std::int32_t>(p.tokens);
  to.fragments = p.pair_count * (halves ? 1 : 2) / per_pack;
  to.first_pack = (p.rotary_offset + p.first_pair * (halves ? 1 : 2)) / per_pack;
  to.pack_stride = p.pairs * size;
  to.pair_count = p.pair_count;
  to.row_size = (p.pair_count + 3) / 4 * 4;
  to.axes = p.axes;
  to.pass_before = p.rotary_offset / per_pack;
  to.pass_count = p.copies_pass_through ? (p.head_dim - 2 * p.pairs) / per_pack : 0;
  to.pass_skip = 2 * p.pairs / per_pack;
  to.cos_magnitude = p.magnitude.cos_float;
  to.sin_magnitude = p.magnitude.sin_float;
  to.overlaps = p.overlaps;
  to.e5m2 = p.out_type == DType::kFloat8E5M2;
  return true;
}

}  // namespace

bool fill_vectorized_operand(const KernelParams& p, const OperandParams& o,
                             VectorizedOperand& to) noexcept {
  const auto size = static_cast<std::int64_t>(size_of(p.type));
  const std::int64_t out_bytes = kPackBytes / size * static_cast<std::int64_t>(size_of(p.out_type));
  if (!fits_int32(p, kPackBytes, o.in_batch, o.in_token, o.in_head) ||
      !fits_int32(p, out_bytes, o.out_batch, o.out_token, o.out_head)) {
    return false;
  }
  const auto packs = [](std::int64_t bytes, std::int64_t of = kPackBytes) {
    return static_cast<std::int32_t>(bytes / of);
  };
  to = {.in = static_cast<const char*>(o.in),
        .out = static_cast<char*>(o.out),
        .in_batch = packs(o.in_batch),
        .in_token = packs(o.in_token),
        .in_head = packs(o.in_head),
        .out_batch = packs(o.out_batch, out_bytes),
        .out_token = packs(o.out_token, out_bytes),
        .out_head = packs(o.out_head, out_bytes),
        .heads = 0,
        .tokens = 1,
        .token_mask = 0,
        .group_shift = 0,
        .groups = 1,
        .row_threads = 0,
        .out_scale = o.out_scale};
  return true;
}

bool fill_vectorized_angles(const SimpleParams& p, Layout layout, VectorizedParams& to) noexcept {
  if (!fill_layout(p, layout, to)) return false;
  std::copy_n(p.fractions, p.pair_count, to.fractions);
  if (p.axes > 1) std::copy_n(p.axis_of, p.pair_count, to.axis_of);
  return true;
}

bool fill_vectorized_table(const TableParams& p, Layout layout, VectorizedParams& to,
                           VectorizedTable& table) noexcept {
  if (p.inverts || p.table_type == DType::kFloat64 || !fill_layout(p, layout, to)) return false;
  static_cast<TableSource&>(table) = p;
  table.conjugates = p.conjugates;
  return true;
}

bool make_vectorized_params(const SimpleParams& p, Layout layout, VectorizedParams& to) noexcept {
  if (p.num_operands > 2 || p.type == DType::kFloat64) return false;
  for (int k = 0; k < p.num_operands; ++k) {
    if (!fill_vectorized_operand(p, p.operands[k], to.operands[k])) return false;
    const std::int32_t end = k + 1 < p.num_operands ? p.first_head[k + 1] : p.num_heads;
    to.operands[k].heads = end - p.first_head[k];
  }
  return fill_vectorized_angles(p, layout, to);
}

bool use_warp_shuffle(const SimpleParams& p, VectorizedParams& to) noexcept {
  const std::int32_t packs = 2 * to.fragments;
  if (p.pair_count != p.pairs || packs > 32 || (packs & (packs - 1)) != 0) return false;
  to.fragments = packs;
  return true;
}

VectorizedShape shape_vectorized(const SimpleParams& p, int heads, int max_threads, int tokens,
                                 VectorizedParams& to) noexcept {
  const std::int32_t count = p.num_operands;
  const std::int32_t more = count > 1 && to.operands[1].heads > to.operands[0].heads ? 1 : 0;
  VectorizedOperand& large = to.operands[more];
  VectorizedOperand& small = count > 1 ? to.operands[1 - more] : large;
  VectorizedShape shape;
  // Rows cover the heads of the smaller operand, as far as threads allow.
  const std::int32_t max_rows = std::max(1, max_threads / to.fragments);
  shape.rows = std::clamp(ceil_div(small.heads, heads), 1, max_rows);
  const std::int32_t row_heads = shape.rows * heads;
  const std::int32_t max_depth = std::min(64, max_threads / (to.fragments * shape.rows));
  const std::int32_t groups = std::min(ceil_div(large.heads, row_heads), max_depth);
  const std::int32_t threads = to.fragments * shape.rows * groups;
  std::int32_t shift = 0;
  while ((tokens >> shift) > 1 || (threads << shift) < kMinThreads) {
    if ((groups << (shift + 1)) > max_depth) break;
    ++shift;
  }
  shape.depth = groups << shift;
  const auto fill = [&](VectorizedOperand& o, std::int32_t block_tokens, std::int32_t mask,
                        std::int32_t group_shift, std::int32_t own_groups) {
    o.tokens = block_tokens;
    o.token_mask = mask;
    o.group_shift = group_shift;
    o.groups = own_groups;
    o.row_threads = to.fragments * shape.rows * own_groups;
    shape.head_splits = std::max(shape.head_splits, ceil_div(o.heads, row_heads * own_groups));
  };
  fill(large, 1 << shift, (1 << shift) - 1, shift, groups);
  if (count > 1) fill(small, shape.depth, 0xff, 8, 1);
  to.operand0_tiles = 0;
  for (std::int32_t k = 0; k < count; ++k) {
    const std::int64_t tiles = (p.tokens + to.operands[k].tokens - 1) / to.operands[k].tokens;
    if (k == 0) to.operand0_tiles = static_cast<std::uint32_t>(tiles);
    shape.tiles += tiles;
  }
  return shape;
}

VectorizedShape shape_tokens(const SimpleParams& p, int fragment_packs, int max_packs,
                             const VectorizedParams& vectorized) noexcept {
  const std::int32_t max_rows = std::max(1, max_packs / (vectorized.fragments * fragment_packs));
  VectorizedShape shape;
  shape.head_splits = ceil_div(p.num_heads, max_rows);
  shape.rows = ceil_div(p.num_heads, shape.head_splits);
  shape.tiles = p.tokens;
  return shape;
}

}  // namespace rotary::internal::cuda
