// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// Element types on the device: accumulator types, and conversion of one element or of the two
// 16-bit elements of a register. Conversions round once, to nearest even.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstdint>

namespace rotary::device {

/// Accumulator type: double for double, float for every other element type.
template <typename T>
struct AccumOf {
  using type = float;
};
template <>
struct AccumOf<double> {
  using type = double;
};
template <typename T>
using Accum = typename AccumOf<T>::type;

__device__ inline float to_accum(float x) { return x; }
__device__ inline double to_accum(double x) { return x; }
__device__ inline float to_accum(__nv_bfloat16 x) { return __bfloat162float(x); }
__device__ inline float to_accum(__half x) { return __half2float(x); }

template <typename T>
__device__ T from_accum(Accum<T> x) {
  return x;
}
template <>
__device__ inline __nv_bfloat16 from_accum<__nv_bfloat16>(float x) {
  return __float2bfloat16_rn(x);
}
template <>
__device__ inline __half from_accum<__half>(float x) {
  return __float2half_rn(x);
}

/// Two 16-bit elements in one register, `low` in the low half, as vectorised accesses and operands
/// of mma and wgmma hold them.
template <typename T>
__device__ std::uint32_t pack_two(float low, float high);
template <>
__device__ inline std::uint32_t pack_two<__nv_bfloat16>(float low, float high) {
  const __nv_bfloat162 two = __floats2bfloat162_rn(low, high);
  return reinterpret_cast<const std::uint32_t&>(two);
}
template <>
__device__ inline std::uint32_t pack_two<__half>(float low, float high) {
  const __half2 two = __floats2half2_rn(low, high);
  return reinterpret_cast<const std::uint32_t&>(two);
}

/// The inverse, exact: x is the low element, y the high one.
template <typename T>
__device__ float2 unpack_two(std::uint32_t two);
/// bfloat16 is the upper half of a float: one shift and one mask.
template <>
__device__ inline float2 unpack_two<__nv_bfloat16>(std::uint32_t two) {
  return {__uint_as_float(two << 16), __uint_as_float(two & 0xffff0000U)};
}
template <>
__device__ inline float2 unpack_two<__half>(std::uint32_t two) {
  const auto element = [](std::uint32_t bits) {
    return __half2float(__ushort_as_half(static_cast<std::uint16_t>(bits)));
  };
  return {element(two & 0xffffU), element(two >> 16)};
}

}  // namespace rotary::device
