// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// cos and sin of a pair at a token's position: integer positions with exact angles, and the
// caller's tables. cos_sin_general.cuh has the other cases.
#pragma once

#include <cstdint>

#include "cuda/device/elements.cuh"
#include "cuda/device/phase.cuh"
#include "cuda/device/positions.cuh"
#include "cuda/params.h"

namespace rotary::internal::cuda {

/// Hides from the compiler that the array is a kernel parameter. It is then read by generic loads
/// instead of through the constant bank, which serialises lanes that read different entries.
template <typename T>
__device__ __forceinline__ const T* as_generic_memory(const T* parameters) {
  asm("" : "+l"(parameters));
  return parameters;
}

__device__ __forceinline__ void apply_magnitude(const MagnitudeParams& magnitude,
                                                CosSin<float>& z) {
  z = {mul_rn(z.cos, magnitude.cos_float), mul_rn(z.sin, magnitude.sin_float)};
}
__device__ __forceinline__ void apply_magnitude(const MagnitudeParams& magnitude,
                                                CosSin<double>& z) {
  z = {mul_rn(z.cos, magnitude.cos), mul_rn(z.sin, magnitude.sin)};
}

template <typename T>
__device__ inline T table_entry(const void* from, DType type, std::int64_t at) {
  switch (type) {
    case DType::kFloat64:
      return static_cast<T>(static_cast<const double*>(from)[at]);
    case DType::kBFloat16:
      return static_cast<T>(BFloat16::load(static_cast<const std::uint16_t*>(from)[at]));
    case DType::kFloat16:
      return static_cast<T>(Float16::load(static_cast<const std::uint16_t*>(from)[at]));
    default:
      return static_cast<T>(static_cast<const float*>(from)[at]);
  }
}

/// cos and sin (times the magnitude) of the i-th pair of the launch.
template <typename T>
__device__ inline CosSin<T> cos_sin_of(const TableParams& p, std::int64_t batch, std::int64_t token,
                                       std::int32_t i) {
  const std::int64_t row = integer_position(p.positions, 0, batch, token);
  if (row < 0 || row >= p.rows) {
    const T nan = static_cast<T>(__int_as_float(0x7fffffff));
    return {nan, nan};
  }
  const std::int64_t pair = p.first_pair + i;
  const auto at = [&](const std::int64_t(&strides)[3]) {
    return batch * strides[0] + row * strides[1] + pair * strides[2];
  };
  CosSin<T> z{table_entry<T>(p.cos, p.table_type, at(p.cos_strides)),
              table_entry<T>(p.sin, p.table_type, at(p.sin_strides))};
  if (p.inverts) {
    const T norm = mul_rn(z.cos, z.cos) + mul_rn(z.sin, z.sin);  // |z|^2
    z = {z.cos / norm, z.sin / norm};
  }
  if (p.conjugates) z.sin = -z.sin;
  return z;
}

template <typename T>
__device__ __forceinline__ CosSin<T> cos_sin_of(const SimpleParams& p, std::int64_t batch,
                                                std::int64_t token, std::int32_t i) {
  const std::uint64_t fraction = as_generic_memory(p.fractions)[i];
  const std::int64_t axis = p.axes > 1 ? as_generic_memory(p.axis_of)[i] : 0;
  const std::int64_t position = integer_position(p.positions, axis, batch, token);
  CosSin<T> z = cos_sin_on_device<T>(static_cast<std::uint64_t>(position) * fraction);
  apply_magnitude(p.magnitude, z);
  return z;
}

}  // namespace rotary::internal::cuda
