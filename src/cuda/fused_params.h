// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// Parameters of the fused kernels: a norm and the rotation after or before it, and stores into a
// cache of keys and values. They extend the parameters of a rotation (params.h), whose `head_dim`
// is that of the rotated operands.
#pragma once

#include <cstddef>
#include <cstdint>

#include "cuda/params.h"
#include "rotary/tensor.h"

namespace rotary::internal::cuda {

/// Stored tensors per launch: keys and values.
inline constexpr int kStoresPerLaunch = 2;
inline constexpr std::int8_t kNoStore = -1;
/// Maximum head_dim of a fused kernel, values included: one head as floats fits shared memory.
inline constexpr std::int64_t kMaxFusedHeadDim = 8192;

/// What an operand has beside OperandParams.
struct FusedOperand {
  const void* weight = nullptr;  // [head_dim], or [heads * head_dim] across heads; null: 1
  const void* bias = nullptr;    // as weight; null: none
  DType weight_type = DType::kFloat32;
  DType bias_type = DType::kFloat32;
  std::int32_t head_dim = 0;
  std::int8_t store = kNoStore;  // index in `stores`; then OperandParams::out is unused
  bool normalizes = false;
  bool rotates = true;
};

struct FusedNorm {
  float eps = 0.0f;
  std::int32_t sum_lanes = 4;
  bool has_mean = false;
  bool adds_one = false;              // to weights
  bool across_heads = false;          // one norm of all heads of a token
  bool after_rotation = false;        // otherwise before it
  bool rounds_before_weight = false;  // to the tensor's type
  bool rounds_between = false;        // to the tensor's type, between norm and rotation
};

/// HeadStore on the device. Strides are in bytes; those of `computed` in elements.
struct StoreParams {
  char* data = nullptr;  // [blocks, block_size, heads, head_dim]
  std::int64_t block_stride = 0;
  std::int64_t token_stride = 0;
  std::int64_t head_stride = 0;
  std::int64_t block_size = 1;
  std::int32_t block_shift = -1;  // log2 of block_size, a power of two; otherwise -1
  const float* scale = nullptr;   // of head h: scale[h * scale_stride]; null: 1
  std::int64_t scale_stride = 0;
  float* computed = nullptr;  // [blocks, block_size, heads, groups]
  std::int64_t computed_block = 0;
  std::int64_t computed_token = 0;
  std::int64_t computed_head = 0;
  std::int64_t computed_group = 0;
  std::int32_t groups = 1;
  DType type = DType::kFloat32;
  bool multiplies = false;  // by the scale; otherwise divides
};

/// Slots of the tokens (rotary/kv_cache.h). Strides are in elements, of the launch's batch and
/// token indices.
struct SlotParams {
  const void* indices = nullptr;    // [batch, tokens] or [n]
  const void* sequences = nullptr;  // as indices; null: sequence_base and on
  const void* table = nullptr;      // [sequences, max_blocks]; null: indices are slots
  std::int64_t batch_stride = 0;
  std::int64_t token_stride = 0;
  std::int64_t sequences_batch = 0;
  std::int64_t sequences_token = 0;
  std::int64_t table_row = 0;
  std::int64_t table_column = 0;
  /// Rank of a token among those of all batch rows: rank + batch * rank_batch + token. Tokens of
  /// rank `count` and above have no slot.
  std::int64_t rank = 0;
  std::int64_t rank_batch = 0;
  std::int64_t count = 0;
  /// Batch row: rank / row_tokens.
  std::int64_t row_tokens = 1;
  std::int64_t table_rows = 0;
  std::int64_t table_columns = 0;
  std::int64_t num_slots = 0;
  std::int64_t block_size = 1;
  std::int32_t block_shift = -1;  // as in StoreParams
  DType type = DType::kInt64;
  DType sequences_type = DType::kInt64;
  DType table_type = DType::kInt64;
};

/// Angles: SimpleParams, GeneralParams or TableParams.
template <class Angles>
struct FusedParams : Angles {
  FusedOperand fused[kOperandsPerLaunch];
  FusedNorm norm;
  StoreParams stores[kStoresPerLaunch];
  SlotParams slots;
};
/// Those of the tuned kernel, with its layout of shared memory.
struct FusedTokensParams : FusedParams<SimpleParams> {
  std::int32_t row_floats = 0;     // of the cosines of a token, and of the sines
  std::int32_t weight_floats = 0;  // of the factors of an operand, and of its biases
  std::int32_t staged_offset = 0;  // of the heads, in bytes
  std::int32_t staged_bytes = 0;   // of a head
  bool computes_scales = false;    // of any store
};

static_assert(sizeof(FusedParams<GeneralParams>) <= kMaxParameterBytes);

}  // namespace rotary::internal::cuda
