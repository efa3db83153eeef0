// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

#include "cuda/launch_fused.h"

#include <bit>
#include <cstddef>
#include <cstdint>

#include "cuda/angle_params.h"
#include "cuda/fused.h"
#include "cuda/fused_params.h"
#include "cuda/launch_split.h"

namespace rotary::internal::cuda {
namespace {

constexpr int kMaxItems = kMaxOperands + 1;  // operands of a rotation, and a copy

/// A tensor of the call.
struct FusedItem {
  Operand operand{TensorView{}};
  const HeadStore* store = nullptr;
  const DeviceNormTable* table = nullptr;  // null: no norm
  bool rotates = true;
};

/// What the launches of a call share.
struct FusedCall {
  FusedItem items[kMaxItems];
  int count = 0;
  const RotateParams* rotation = nullptr;  // null: nothing is rotated
  FusedNorm norm{};
  const Slots* slots = nullptr;
  std::int64_t num_slots = 0;
  bool overlaps = false;
  cudaStream_t stream = nullptr;
};

/// The items of one launch.
struct FusedGroup {
  const FusedItem* items[kOperandsPerLaunch];
  int count = 0;
};

std::int64_t bytes_of(DType type) noexcept { return static_cast<std::int64_t>(size_of(type)); }

FusedNorm norm_of(const NormParams& params) noexcept {
  return {.eps = params.norm.eps,
          .sum_lanes = params.norm.sum_lanes,
          .has_mean = params.norm.has_mean,
          .adds_one = params.adds_one,
          .across_heads = params.norm.across_heads,
          .after_rotation = params.order == NormOrder::kAfterRotation,
          .rounds_before_weight = params.rounding == NormRounding::kEveryStep,
          .rounds_between = params.rounding != NormRounding::kFloat32};
}

std::int32_t shift_of(std::int64_t block_size) noexcept {
  const auto size = static_cast<std::uint64_t>(block_size);
  return std::has_single_bit(size) ? std::countr_zero(size) : -1;
}

void fill_store(const HeadStore& from, StoreParams& to) noexcept {
  const std::int64_t size = bytes_of(from.dtype);
  to = {.data = static_cast<char*>(from.data),
        .block_stride = from.block_stride * size,
        .token_stride = from.token_stride * size,
        .head_stride = from.head_stride * size,
        .block_size = from.block_size,
        .block_shift = shift_of(from.block_size),
        .scale = from.scale,
        .scale_stride = from.scale_stride,
        .computed = from.computed,
        .computed_block = from.computed_block_stride,
        .computed_token = from.computed_token_stride,
        .computed_head = from.computed_head_stride,
        .computed_group = from.computed_group_stride,
        .groups = static_cast<std::int32_t>(from.groups),
        .type = from.dtype,
        .multiplies = from.use == ScaleUse::kMultiply};
}

/// An array [batch, tokens] or [n] of integers: its address at the first token of the range, and
/// the strides of the launch's batch and token indices.
const void* fill_integers(const ConstTensorView& view, std::int64_t tokens, const TokenRange& range,
                          std::int64_t& batch_stride, std::int64_t& token_stride) noexcept {
  const bool is_flat = view.rank == 1;
  const std::int64_t row = is_flat ? tokens * view.strides[0] : view.strides[0];
  const std::int64_t column = is_flat ? view.strides[0] : view.strides[1];
  batch_stride = range.batch_as_tokens ? 0 : row;
  token_stride = range.batch_as_tokens ? row : column;
  const std::int64_t at = range.first_batch * batch_stride + range.first_token * token_stride;
  return static_cast<const char*>(view.data) + at * bytes_of(view.dtype);
}

void fill_slots(const FusedCall& call, std::int64_t batch, std::int64_t tokens,
                const TokenRange& range, std::int64_t block_size, SlotParams& to) noexcept {
  const ConstTensorView& indices = call.slots->indices();
  to.indices = fill_integers(indices, tokens, range, to.batch_stride, to.token_stride);
  to.type = indices.dtype;
  to.rank = range.first_batch * tokens + range.first_token;
  to.rank_batch = range.batch_as_tokens ? 0 : tokens;
  to.count = indices.rank == 1 ? indices.shape[0] : batch * tokens;
  to.row_tokens = tokens;
  to.num_slots = call.num_slots;
  to.block_size = block_size;
  to.block_shift = shift_of(block_size);
  const ConstTensorView& table = call.slots->block_table();
  if (table.rank == 0) return;
  to.table = table.data;
  to.table_type = table.dtype;
  to.table_row = table.strides[0];
  to.table_column = table.strides[1];
  to.table_rows = table.shape[0];
  to.table_columns = table.shape[1];
  const ConstTensorView& sequences = call.slots->sequences();
  if (sequences.rank == 0) return;
  to.sequences = fill_integers(sequences, tokens, range, to.sequences_batch, to.sequences_token);
  to.sequences_type = sequences.dtype;
}

/// Everything but the angles.
template <class Params>
void fill_common(const FusedCall& call, const FusedGroup& group, const TokenRange& range,
                 Params& p) noexcept {
  int stores = 0;
  for (int k = 0; k < group.count; ++k) {
    const FusedItem& item = *group.items[k];
    const Dims& shape = item.operand.in.shape;
    fill_operand({.operand = &item.operand, .first_head = 0, .heads = shape[2]}, range,
                 p.operands[k]);
    p.first_head[k] = p.num_heads;
    p.num_heads += static_cast<std::int32_t>(shape[2]);
    FusedOperand& f = p.fused[k];
    f.head_dim = static_cast<std::int32_t>(shape[3]);
    f.rotates = item.rotates;
    f.normalizes = item.table != nullptr;
    if (item.table != nullptr) {
      f.weight = item.table->weight.data;
      f.weight_type = item.table->weight.dtype;
      f.bias = item.table->bias.data;
      f.bias_type = item.table->bias.dtype;
    }
    if (item.rotates || p.head_dim == 0) p.head_dim = f.head_dim;
    if (item.store == nullptr) continue;
    f.store = static_cast<std::int8_t>(stores);
    fill_store(*item.store, p.stores[stores++]);
    fill_slots(call, shape[0], shape[1], range, item.store->block_size, p.slots);
  }
  p.num_operands = group.count;
  p.norm = call.norm;
  p.tokens = range.tokens;
  p.batch = static_cast<std::int32_t>(range.batch);
  p.type = group.items[0]->operand.in.dtype;
  p.out_type = p.type;
  p.overlaps = call.overlaps;
  if (call.rotation == nullptr) return;
  fill_positions(call.rotation->positions, range, p.positions);
  p.rotary_offset = static_cast<std::int32_t>(call.rotation->rotary_offset);
  p.pairs = static_cast<std::int32_t>(call.rotation->pairs);
  p.pair_count = p.pairs;
  p.read = call.rotation->read;
  p.write = call.rotation->write;
  p.inverts = call.rotation->direction == Direction::kInverse;
  p.conjugates = call.rotation->direction != Direction::kForward;
}

cudaError_t launch_group(const FusedCall& call, const FusedGroup& group,
                         const TokenRange& range) noexcept {
  const RotateParams* const rotation = call.rotation;
  const bool rotates = group.items[0]->rotates;
  if (rotates && rotation->source.table != nullptr) {
    FusedParams<TableParams> p{};
    fill_common(call, group, range, p);
    fill_table(*rotation, range, p);
    return fused(p, call.stream);
  }
  const PairRange all{.first = 0, .count = rotates ? rotation->pairs : 0};
  if (rotates &&
      (rotation->pairs > kMaxSimplePairs || !is_simple(rotation->source, rotation->positions))) {
    FusedParams<GeneralParams> p{};
    fill_common(call, group, range, p);
    fill_magnitude(rotation->source, rotation->direction, p);
    fill_words(rotation->source, rotation->positions, all, p);
    return fused(p, call.stream);
  }
  FusedParams<SimpleParams> p{};
  fill_common(call, group, range, p);
  if (rotates) {
    fill_magnitude(rotation->source, rotation->direction, p);
    fill_fractions(rotation->source, rotation->positions, all, p);
  } else {
    p.pairs = 0;
    p.pair_count = 0;
    p.rotary_offset = 0;
  }
  return fused(p, call.stream);
}

/// The next items of one type; of a launch the first is rotated if any is. False if none is left.
bool next_group(const FusedCall& call, bool (&done)[kMaxItems], FusedGroup& group) noexcept {
  group.count = 0;
  int stores = 0;
  for (int i = 0; i < call.count && group.count < kOperandsPerLaunch; ++i) {
    const FusedItem& item = call.items[i];
    if (done[i] || (item.store != nullptr && stores == kStoresPerLaunch)) continue;
    if (group.count > 0 && item.operand.in.dtype != group.items[0]->operand.in.dtype) continue;
    if (item.store != nullptr) ++stores;
    group.items[group.count++] = &item;
    done[i] = true;
  }
  return group.count > 0;
}

cudaError_t launch_call(const FusedCall& call) noexcept {
  bool done[kMaxItems] = {};
  FusedGroup group;
  while (next_group(call, done, group)) {
    const Dims& shape = group.items[0]->operand.in.shape;
    const bool transposes = call.rotation == nullptr || may_transpose(*call.rotation);
    const cudaError_t error = for_each_token_range(
        shape[0], shape[1], transposes,
        [&](const TokenRange& range) { return launch_group(call, group, range); });
    if (error != cudaSuccess) return error;
  }
  return cudaSuccess;
}

}  // namespace

cudaError_t launch_norm(const NormParams& params, bool overlaps, cudaStream_t stream) noexcept {
  FusedCall call;
  call.rotation = &params.rotation;
  call.norm = norm_of(params);
  call.overlaps = overlaps;
  call.stream = stream;
  for (const Operand& x : params.rotation.operands) {
    const int i = call.count++;
    call.items[i] = {.operand = x, .table = &params.device_tables[static_cast<std::size_t>(i)]};
  }
  return launch_call(call);
}

cudaError_t launch_append(const AppendParams& params, bool overlaps, cudaStream_t stream) noexcept {
  FusedCall call;
  call.rotation = params.rotation;
  if (params.norm != nullptr) call.norm = norm_of(*params.norm);
  call.slots = &params.slots;
  call.num_slots = params.num_slots;
  call.overlaps = overlaps;
  call.stream = stream;
  if (params.rotation != nullptr) {
    for (const Operand& x : params.rotation->operands) {
      const auto i = static_cast<std::size_t>(call.count++);
      call.items[i] = {.operand = x,
                       .store = params.stores[i],
                       .table = params.norm == nullptr ? nullptr : &params.norm->device_tables[i]};
    }
  }
  for (const StoreCopy& copy : params.copies) {
    TensorView out;  // not written
    out.dtype = copy.from.dtype;
    out.rank = copy.from.rank;
    out.shape = copy.from.shape;
    out.strides = copy.from.strides;
    call.items[call.count++] = {
        .operand = Operand(copy.from, out), .store = &copy.to, .rotates = false};
  }
  return launch_call(call);
}

}  // namespace rotary::internal::cuda
