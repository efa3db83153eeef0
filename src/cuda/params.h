// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// Kernel parameters. Everything a launch needs is passed by value, frequencies included. So there
// is no device state: nothing to allocate, to copy or to keep alive, and a captured graph is
// self-contained.
#pragma once

#include <cstddef>
#include <cstdint>

#include "rotary/pairing.h"
#include "rotary/tensor.h"

namespace rotary::internal::cuda {

/// Operands per launch; a call with more takes several launches.
inline constexpr int kOperandsPerLaunch = 4;
inline constexpr std::int32_t kNoHead = 0x7fffffff;
/// Bytes of a pack: the widest vectorised load or store of a thread.
inline constexpr std::int64_t kPackBytes = 16;
/// Pairs per launch with SimpleParams; a head with more takes several launches, or GeneralParams.
inline constexpr int kMaxSimplePairs = 128;
/// Pairs per launch with GeneralParams, and 64-bit words for their frequencies.
inline constexpr int kMaxGeneralPairs = 512;
inline constexpr int kMaxGeneralWords = 3584;
/// Batch rows, heads per operand and tokens of one launch: limits of a grid.
inline constexpr std::int32_t kBatchPerLaunch = 65535;
inline constexpr std::int64_t kHeadsPerOperand = 16383;
inline constexpr std::int64_t kTokensPerLaunch = std::int64_t{1} << 30;

/// One tensor. Strides are in bytes.
struct OperandParams {
  const void* in = nullptr;  // [batch, tokens, heads, head_dim]
  void* out = nullptr;       // [batch, tokens, heads, head_dim]; may be `in`
  std::int64_t in_batch = 0;
  std::int64_t in_token = 0;
  std::int64_t in_head = 0;
  std::int64_t in_element = 0;
  std::int64_t out_batch = 0;
  std::int64_t out_token = 0;
  std::int64_t out_head = 0;
  std::int64_t out_element = 0;
  const float* out_scale = nullptr;  // 8-bit output: factor before rounding; null: 1
};

/// Positions of the tokens. All pointers are device memory. Packed sequences (`boundaries` as
/// cu_seqlens):
///   first[sequence] + step * (first_token + token - boundaries[sequence])
/// Otherwise (`boundaries` null):
///   start + step * token + ids[axis, batch, token]
/// with step 0 for ids. A range with a start per batch row has ids [1, batch, 1] with strides 0 in
/// axis and token.
struct PositionParams {
  std::int64_t start = 0;
  std::int64_t step = 1;
  const void* ids = nullptr;     // [axes, batch, tokens], of `type`; or null
  std::int64_t axis_stride = 0;  // in elements
  std::int64_t batch_stride = 0;
  std::int64_t token_stride = 0;
  const void* boundaries = nullptr;  // [sequences + 1], of `type`
  const void* first = nullptr;       // [sequences], of `type`; null: 0
  std::int64_t first_token = 0;      // of the launch, in the numbering of `boundaries`
  std::int32_t sequences = 0;
  /// int32 or int64; ids of GeneralParams may be float32 or float64.
  DType type = DType::kInt64;
};

/// Factors of cos and sin without growth: |z|, or 1 / |z| for the inverse. That of sin carries the
/// direction: it is negative for inverse and adjoint.
struct MagnitudeParams {
  double cos = 1.0;
  double sin = 1.0;
  float cos_float = 1.0f;
  float sin_float = 1.0f;
};

/// A rotation of the pairs first_pair .. first_pair + pair_count - 1 of every head: each pair, as a
/// complex number, is multiplied by z = |z| (cos + i sin).
struct KernelParams {
  OperandParams operands[kOperandsPerLaunch];
  /// Number of heads in the preceding operands; kNoHead for absent operands.
  std::int32_t first_head[kOperandsPerLaunch] = {0, kNoHead, kNoHead, kNoHead};
  PositionParams positions;
  MagnitudeParams magnitude;
  std::int64_t tokens = 0;  // at most kTokensPerLaunch
  std::int32_t batch = 0;   // at most kBatchPerLaunch
  std::int32_t num_operands = 0;
  std::int32_t num_heads = 0;  // over all operands
  std::int32_t head_dim = 0;
  std::int32_t rotary_offset = 0;
  std::int32_t pairs = 0;       // of the whole rotary slice
  std::int32_t first_pair = 0;  // of this launch
  std::int32_t pair_count = 0;
  std::int32_t axes = 1;
  DType type = DType::kFloat32;      // of the operands
  DType out_type = DType::kFloat32;  // `type` or an 8-bit one
  Pairing read = Pairing::kHalf;
  Pairing write = Pairing::kHalf;
  bool inverts = false;  // multiplies by 1/z; for tables and growth
  bool conjugates = false;
  /// Copies the elements outside the rotary slice: in the first launch, out of place.
  bool copies_pass_through = false;
  /// Programmatic dependent launch: this kernel may start while the previous one in the stream
  /// drains, and the next one likewise. It reads no memory before the previous one has completed.
  /// Compute capability 9.0 and later.
  bool overlaps = false;
};

/// The common case: exact angles at integer positions, each pair on one axis.
struct SimpleParams : KernelParams {
  std::uint64_t fractions[kMaxSimplePairs] = {};  // [pair_count], Turns::fraction
  std::uint8_t axis_of[kMaxSimplePairs] = {};     // [pair_count], where axes > 1
};

/// The caller's cos/sin table, indexed by position. Strides are in elements; the last one is from
/// pair to pair, whatever the table's width. A position outside the table gives NaN.
struct TableSource {
  const void* cos = nullptr;  // [batch or 1, rows, pairs]
  const void* sin = nullptr;  // [batch or 1, rows, pairs]
  std::int64_t cos_strides[3] = {0, 0, 0};
  std::int64_t sin_strides[3] = {0, 0, 0};
  std::int64_t rows = 0;
  DType table_type = DType::kFloat32;
};

struct TableParams : KernelParams, TableSource {};

/// Offsets in GeneralParams::words of a set of frequencies: planes of [axes, pair_count] words; -1:
/// absent.
struct FrequencyPlanes {
  std::int32_t fractions = -1;  // Turns::fraction; exact angles
  std::int32_t wholes = -1;     // Turns::whole; exact angles at real positions
  std::int32_t radians = -1;    // float in the lower half; Precision::kReference
  std::int32_t growth = -1;     // double
  double growth_origin = 0.0;
};

/// The general case: pairs with frequencies on several axes, real-valued positions, reference
/// precision, growth, quotients of two sets of frequencies.
struct GeneralParams : KernelParams {
  FrequencyPlanes phases;
  FrequencyPlanes divisor;  // fractions and radians both -1: none
  double scale = 1.0;       // with growth: |z| = scale * e^(growth * position), before inversion
  std::uint64_t words[kMaxGeneralWords] = {};
};

/// Output of cos and sin of the launch's pairs, times the scale. Strides are in elements.
struct CosSinParams : GeneralParams {
  void* cos = nullptr;  // [batch, tokens, pairs], of `type`
  void* sin = nullptr;  // [batch, tokens, pairs], of `type`
  std::int64_t cos_strides[3] = {0, 0, 0};
  std::int64_t sin_strides[3] = {0, 0, 0};
};

/// Limit of CUDA's kernel parameters.
inline constexpr std::size_t kMaxParameterBytes = 32764;
static_assert(sizeof(CosSinParams) <= kMaxParameterBytes);

}  // namespace rotary::internal::cuda
