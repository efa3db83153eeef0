// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// The position of a token, as engine/position_reader.h and engine/phase.h define it.
#pragma once

#include <cstdint>

#include "cuda/params.h"
#include "engine/phase.h"

namespace rotary::internal::cuda {

struct DevicePosition {
  std::int64_t integer;
  double real;
  bool is_real;
};

__device__ __forceinline__ DevicePosition from_integer(std::int64_t value) {
  return {value, __ll2double_rn(value), false};
}

/// Element of an int32 or int64 array.
__device__ __forceinline__ std::int64_t load_integer(const void* from, DType type,
                                                     std::int64_t at) {
  return type == DType::kInt32 ? static_cast<const std::int32_t*>(from)[at]
                               : static_cast<const std::int64_t*>(from)[at];
}

/// The last sequence that begins at or before the token, by binary search. `boundaries` is
/// [sequences + 1].
__device__ __forceinline__ std::int32_t sequence_of(const void* boundaries, DType type,
                                                    std::int32_t sequences, std::int64_t token) {
  std::int32_t low = 0;
  std::int32_t high = sequences;
  while (high - low > 1) {
    const std::int32_t middle = low + (high - low) / 2;
    (load_integer(boundaries, type, middle) <= token ? low : high) = middle;
  }
  return low;
}

/// Integer positions. Packed sequences are marked unlikely, which keeps their code out of the hot
/// path.
__device__ __forceinline__ std::int64_t integer_position(const PositionParams& p, std::int64_t axis,
                                                         std::int64_t batch, std::int64_t token) {
  if (__builtin_expect(p.boundaries != nullptr, 0)) {
    const std::int64_t at = p.first_token + token;
    const std::int32_t sequence = sequence_of(p.boundaries, p.type, p.sequences, at);
    const std::int64_t start = p.first == nullptr ? 0 : load_integer(p.first, p.type, sequence);
    return start + p.step * (at - load_integer(p.boundaries, p.type, sequence));
  }
  const std::int64_t at = p.start + p.step * token;
  if (p.ids == nullptr) return at;
  return at + load_integer(p.ids, p.type,
                           axis * p.axis_stride + batch * p.batch_stride + token * p.token_stride);
}

/// Positions of any type.
__device__ inline DevicePosition load_position(const PositionParams& p, std::int64_t axis,
                                               std::int64_t batch, std::int64_t token) {
  const std::int64_t at = axis * p.axis_stride + batch * p.batch_stride + token * p.token_stride;
  if (p.ids != nullptr && p.type == DType::kFloat32) {
    return {0, static_cast<double>(static_cast<const float*>(p.ids)[at]), true};
  }
  if (p.ids != nullptr && p.type == DType::kFloat64) {
    return {0, static_cast<const double*>(p.ids)[at], true};
  }
  return from_integer(integer_position(p, axis, batch, token));
}

/// engine/phase.h's to_fixed.
__device__ inline FixedPosition to_fixed_on_device(const DevicePosition& position) {
  if (!position.is_real) return {static_cast<std::uint64_t>(position.integer), 0, false};
  const double size = fabs(position.real);
  const double whole = trunc(size);
  FixedPosition fixed{0, 0, position.real < 0.0};
  if (whole < 0x1p63) {
    fixed.count = __double2ull_rz(whole);
  } else {
    const std::int64_t bits = __double_as_longlong(whole);
    const int shift = static_cast<int>(bits >> 52) - 1075;
    const std::int64_t mantissa = (bits & 0xfffffffffffff) | 0x10000000000000;
    if (shift < 64) fixed.count = static_cast<std::uint64_t>(mantissa) << shift;
  }
  fixed.rest = __double2ull_rz((size - whole) * 0x1p64);
  return fixed;
}

}  // namespace rotary::internal::cuda
