// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// From the position of a token to the row of complex numbers that its pairs are multiplied by: the
// usual cases. any_row.cuh has the others.
#pragma once

#include <cstdint>

#include "cuda/device/elements.cuh"
#include "cuda/device/phase.cuh"
#include "cuda/device/positions.cuh"
#include "cuda/params.h"

namespace rotary::internal::cuda {

/// The array as ordinary memory. Read as parameters, lanes that want different entries would be
/// served one after the other.
template <typename T>
__device__ __forceinline__ const T* as_memory(const T* parameters) {
  asm("" : "+l"(parameters));
  return parameters;
}

__device__ __forceinline__ void apply_size(const SizeParams& size, CosSin<float>& z) {
  z = {product(z.cos, size.cos_float), product(z.sin, size.sin_float)};
}
__device__ __forceinline__ void apply_size(const SizeParams& size, CosSin<double>& z) {
  z = {product(z.cos, size.cos), product(z.sin, size.sin)};
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

/// z of the i-th pair of the launch.
template <typename T>
__device__ inline CosSin<T> z_of(const TableParams& p, std::int64_t batch, std::int64_t token,
                                 std::int32_t i) {
  const std::int64_t row = integer_position(p.positions, 0, batch, token);
  if (row < 0 || row >= p.rows) {
    const T nothing = static_cast<T>(__int_as_float(0x7fffffff));
    return {nothing, nothing};
  }
  const std::int64_t pair = p.first_pair + i;
  const auto at = [&](const std::int64_t(&strides)[3]) {
    return batch * strides[0] + row * strides[1] + pair * strides[2];
  };
  CosSin<T> z{table_entry<T>(p.cos, p.table_type, at(p.cos_strides)),
              table_entry<T>(p.sin, p.table_type, at(p.sin_strides))};
  if (p.inverts) {
    const T size = product(z.cos, z.cos) + product(z.sin, z.sin);
    z = {z.cos / size, z.sin / size};
  }
  if (p.conjugates) z.sin = -z.sin;
  return z;
}

template <typename T>
__device__ __forceinline__ CosSin<T> z_of(const SimpleParams& p, std::int64_t batch,
                                          std::int64_t token, std::int32_t i) {
  const std::uint64_t fraction = as_memory(p.fractions)[i];
  const std::int64_t axis = p.axes > 1 ? as_memory(p.axis_of)[i] : 0;
  const std::int64_t position = integer_position(p.positions, axis, batch, token);
  CosSin<T> z = cos_sin_on_device<T>(static_cast<std::uint64_t>(position) * fraction);
  apply_size(p.size, z);
  return z;
}

}  // namespace rotary::internal::cuda
