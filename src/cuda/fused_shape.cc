// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

#include "cuda/fused_shape.h"

#include <algorithm>
#include <bit>
#include <cstdint>

#include "cuda/launch_shape.h"

namespace rotary::internal::cuda {
namespace {

constexpr std::int32_t kWarpLanes = 32;
constexpr std::int32_t kMinLanes = 4;
constexpr std::int32_t kMinNormSize = 16;  // at least a vector of every sum_lanes
constexpr std::int32_t kMaxShared = 48 * 1024;

bool is_quantized_type(DType type) noexcept { return is_float8(type) || type == DType::kInt8; }

/// Whether whole packs of the operand can be loaded and stored.
bool has_packs(const FusedTokensParams& p, int k, std::int32_t per_pack) noexcept {
  const OperandParams& o = p.operands[k];
  const FusedOperand& f = p.fused[k];
  const auto size = static_cast<std::int64_t>(size_of(p.type));
  if (f.head_dim % per_pack != 0 || o.in_element != size ||
      !is_aligned_to(o.in, kPackBytes, o.in_batch, o.in_token, o.in_head) ||
      (f.normalizes && f.head_dim < kMinNormSize)) {
    return false;
  }
  if (f.store == kNoStore) {
    return o.out_element == size &&
           is_aligned_to(o.out, kPackBytes, o.out_batch, o.out_token, o.out_head);
  }
  const StoreParams& store = p.stores[f.store];
  const std::int64_t bytes = is_quantized_type(store.type) ? per_pack : kPackBytes;
  return store.groups == 1 && is_aligned_to(store.data, bytes, store.block_stride,
                                            store.token_stride, store.head_stride);
}

/// Threads of a block: fewer where tokens are few, so that they fill more multiprocessors.
std::int32_t max_threads_of(const FusedTokensParams& p) noexcept {
  constexpr std::int64_t kFewTokens = 64;
  constexpr std::int64_t kMaxDecodeBytes = std::int64_t{16} << 20;
  const std::int64_t tokens = p.batch * p.tokens;
  if (tokens <= kFewTokens) return 96;
  const std::int64_t bytes =
      tokens * static_cast<std::int64_t>(size_of(p.type)) * p.num_heads * p.head_dim;
  return bytes <= kMaxDecodeBytes ? 160 : 384;
}

}  // namespace

FusedShape shape_fused_tokens(FusedTokensParams& to) noexcept {
  const auto size = static_cast<std::int32_t>(size_of(to.type));
  const auto per_pack = static_cast<std::int32_t>(kPackBytes) / size;
  if (to.norm.across_heads || to.norm.after_rotation || to.norm.rounds_before_weight ||
      to.read != to.write || to.pairs % per_pack != 0 || to.rotary_offset % per_pack != 0) {
    return {};
  }
  std::int32_t packs = 0;
  std::int32_t weight_operands = 0;
  to.computes_scales = false;
  for (int k = 0; k < to.num_operands; ++k) {
    const FusedOperand& f = to.fused[k];
    if (!has_packs(to, k, per_pack)) return {};
    packs = std::max(packs, f.head_dim / per_pack);
    if (f.normalizes) weight_operands = k + 1;
    if (f.store != kNoStore && to.stores[f.store].computed != nullptr) to.computes_scales = true;
  }
  const std::int32_t pairs_of_packs = to.pairs / per_pack;
  const std::int32_t wanted =
      std::max({kMinLanes, pairs_of_packs, std::min(kWarpLanes, ceil_div(packs, 2))});
  FusedShape shape;
  shape.lanes = static_cast<std::int32_t>(std::bit_ceil(static_cast<std::uint32_t>(wanted)));
  if (shape.lanes > kWarpLanes) return {};

  to.row_floats = (to.pairs + 3) / 4 * 4;
  to.weight_floats = weight_operands == 0 ? 0 : (to.head_dim + 3) / 4 * 4;
  const std::int32_t weight_rows = weight_operands * (to.norm.has_mean ? 2 : 1);
  to.staged_offset = (2 * to.row_floats + weight_rows * to.weight_floats) *
                     static_cast<std::int32_t>(sizeof(float));
  to.staged_bytes = 0;
  if (weight_operands > 0) {
    // Heads of a warp begin in different banks.
    to.staged_bytes = packs * static_cast<std::int32_t>(kPackBytes);
    if (to.staged_bytes % 128 == 0) to.staged_bytes += 4 * shape.lanes;
  }
  const std::int32_t unit = kWarpLanes / shape.lanes;  // rows of a warp
  std::int32_t max_rows = max_threads_of(to) / kWarpLanes * unit;
  if (to.staged_bytes > 0) {
    max_rows = std::min(max_rows, (kMaxShared - to.staged_offset) / to.staged_bytes / unit * unit);
  }
  if (max_rows < unit) return {};
  shape.head_splits = ceil_div(to.num_heads, max_rows);
  shape.rows = ceil_div(ceil_div(to.num_heads, shape.head_splits), unit) * unit;
  shape.shared_bytes = to.staged_offset + shape.rows * to.staged_bytes;
  return shape;
}

}  // namespace rotary::internal::cuda
