// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// What a launch is told. All of it travels inside the kernel's parameters, frequencies included, so
// that there is no device state: nothing to allocate, to copy or to keep alive, and a captured
// graph holds everything it needs.
#pragma once

#include <cstddef>
#include <cstdint>

#include "rotary/pairing.h"
#include "rotary/tensor.h"

namespace rotary::internal::cuda {

/// Tensors of one launch; a call with more takes several.
inline constexpr int kOperandsPerLaunch = 4;
inline constexpr std::int32_t kNoHead = 0x7fffffff;
/// Pairs of one launch with SimpleParams; a head with more takes several, or AnyParams.
inline constexpr int kSimplePairs = 128;
/// Pairs of one launch with AnyParams, and the words for their frequencies.
inline constexpr int kAnyPairs = 512;
inline constexpr int kAnyWords = 3584;
/// Batch rows, heads of one operand and tokens of one launch: what a grid takes.
inline constexpr std::int32_t kBatchPerLaunch = 65535;
inline constexpr std::int64_t kHeadsPerOperand = 16383;
inline constexpr std::int64_t kTokensPerLaunch = std::int64_t{1} << 30;

/// One tensor. Strides count bytes.
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
  const float* out_scale = nullptr;  // 8-bit results: what they are multiplied by; null: 1
};

/// Where tokens stand. All pointers are device memory. Sequences packed end to end:
///   first[sequence] + step * (first_token + token - boundaries[sequence])
/// Everything else (`boundaries` null) is
///   start + step * token + ids[axis, batch, token]
/// with step 0 for ids, and for ranges that begin where each batch row says: ids [1, batch, 1] with
/// strides 0 in axis and token.
struct PositionParams {
  std::int64_t start = 0;
  std::int64_t step = 1;
  const void* ids = nullptr;     // [axes, batch, tokens], of `type`; or null
  std::int64_t axis_stride = 0;  // in elements
  std::int64_t batch_stride = 0;
  std::int64_t token_stride = 0;
  const void* boundaries = nullptr;  // [sequences + 1], of `type`
  const void* first = nullptr;       // [sequences], of `type`; null: 0
  std::int64_t first_token = 0;      // of the launch, counted as boundaries count
  std::int32_t sequences = 0;
  /// int32 or int64; for ids of AnyParams float32 and float64 too.
  DType type = DType::kInt64;
};

/// What z is multiplied by when nothing grows: |z| for the cosine; for the sine with its sign,
/// which is minus for inverse and adjoint. The inverse has 1 / |z|.
struct SizeParams {
  double cos = 1.0;
  double sin = 1.0;
  float cos_float = 1.0f;
  float sin_float = 1.0f;
};

/// A rotation of the pairs first_pair .. first_pair + pair_count - 1 of every head.
struct RotateParams {
  OperandParams operands[kOperandsPerLaunch];
  /// Heads of the operands before; operands that there are not begin at kNoHead.
  std::int32_t first_head[kOperandsPerLaunch] = {0, kNoHead, kNoHead, kNoHead};
  PositionParams positions;
  SizeParams size;
  std::int64_t tokens = 0;  // at most kTokensPerLaunch
  std::int32_t batch = 0;   // at most kBatchPerLaunch
  std::int32_t num_operands = 0;
  std::int32_t num_heads = 0;  // of all operands
  std::int32_t head_dim = 0;
  std::int32_t rotary_offset = 0;
  std::int32_t pairs = 0;  // of the whole rotary slice
  std::int32_t first_pair = 0;
  std::int32_t pair_count = 0;
  std::int32_t axes = 1;
  DType type = DType::kFloat32;      // of the operands
  DType out_type = DType::kFloat32;  // `type` or an 8-bit one
  Pairing read = Pairing::kHalf;
  Pairing write = Pairing::kHalf;
  bool inverts = false;  // 1/z: for tables, and where something grows
  bool conjugates = false;
  bool copies_rest = false;  // elements outside the rotary slice, in the first launch out of place
  /// Lets this launch begin while the one before it in the stream ends, and the next one likewise.
  /// It reads nothing before the one before has ended. Compute capability 9.0 and later.
  bool overlaps = false;
};

/// The usual case: exact angles at whole-number positions, each pair on one axis.
struct SimpleParams : RotateParams {
  std::uint64_t fractions[kSimplePairs] = {};  // [pair_count], Turns::fraction
  std::uint8_t axis_of[kSimplePairs] = {};     // [pair_count], where axes > 1
};

/// The caller's cos and sin; row = position. Strides count elements; the last one steps from pair
/// to pair, whatever the table's width. A position that is no row of the table gives NaN.
struct TableParams : RotateParams {
  const void* cos = nullptr;  // [batch or 1, rows, pairs]
  const void* sin = nullptr;  // [batch or 1, rows, pairs]
  std::int64_t cos_strides[3] = {0, 0, 0};
  std::int64_t sin_strides[3] = {0, 0, 0};
  std::int64_t rows = 0;
  DType table_type = DType::kFloat32;
};

/// Where in AnyParams::words a set of frequencies lies: planes of [axes, pair_count] words, -1
/// where there is none.
struct FrequencyPlanes {
  std::int32_t fractions = -1;  // Turns::fraction; exact angles
  std::int32_t wholes = -1;     // Turns::whole; exact angles at real positions
  std::int32_t radians = -1;    // float in the lower half; Precision::kReference
  std::int32_t growth = -1;     // double
  double growth_origin = 0.0;
};

/// Every other case: pairs that turn with several axes, real positions, reference precision,
/// growth, quotients of two sets.
struct AnyParams : RotateParams {
  FrequencyPlanes phases;
  FrequencyPlanes divisor;  // fractions and radians both -1: none
  double scale = 1.0;       // where something grows: |z| = scale * e^growth, before it is inverted
  std::uint64_t words[kAnyWords] = {};
};

/// cos and sin of the launch's pairs, times the scale. Strides count elements.
struct CosSinParams : AnyParams {
  void* cos = nullptr;  // [batch, tokens, pairs], of `type`
  void* sin = nullptr;  // [batch, tokens, pairs], of `type`
  std::int64_t cos_strides[3] = {0, 0, 0};
  std::int64_t sin_strides[3] = {0, 0, 0};
};

/// What a kernel may be told.
inline constexpr std::size_t kMostParameterBytes = 32764;
static_assert(sizeof(CosSinParams) <= kMostParameterBytes);

}  // namespace rotary::internal::cuda
