// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// The element types: each loads into its arithmetic type and stores with one rounding to nearest
// even, as support/half.h defines it (a NaN stays one, its payload need not).
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstdint>

#include "cuda/device/memory.cuh"

namespace rotary::internal::cuda {

/// What a type must be told to store: nothing, save by 8-bit ones (float8.cuh).
struct AsItIs {};

template <typename T>
struct PlainElement {
  using Storage = T;
  using Compute = T;
  using Target = AsItIs;
  static constexpr int kPerPack = 16 / static_cast<int>(sizeof(T));
  static __device__ __forceinline__ T load(T stored) { return stored; }
  static __device__ __forceinline__ T store(T value, AsItIs = {}) { return value; }
};

struct Float32 : PlainElement<float> {
  static __device__ __forceinline__ void unpack(const Pack<16>& pack, float (&v)[4]) {
    for (int i = 0; i < 4; ++i) v[i] = __uint_as_float(pack.words[i]);
  }
  static __device__ __forceinline__ Pack<16> pack(const float (&v)[4], AsItIs = {}) {
    Pack<16> result;
    for (int i = 0; i < 4; ++i) result.words[i] = __float_as_uint(v[i]);
    return result;
  }
};

struct Float64 : PlainElement<double> {
  static __device__ __forceinline__ void unpack(const Pack<16>& pack, double (&v)[2]) {
    for (int i = 0; i < 2; ++i) {
      v[i] = __hiloint2double(static_cast<int>(pack.words[2 * i + 1]),
                              static_cast<int>(pack.words[2 * i]));
    }
  }
  static __device__ __forceinline__ Pack<16> pack(const double (&v)[2], AsItIs = {}) {
    Pack<16> result;
    for (int i = 0; i < 2; ++i) {
      result.words[2 * i] = static_cast<std::uint32_t>(__double2loint(v[i]));
      result.words[2 * i + 1] = static_cast<std::uint32_t>(__double2hiint(v[i]));
    }
    return result;
  }
};

/// bfloat16 is the upper half of a float: a shift and a mask unpack two of them.
struct BFloat16 {
  using Storage = std::uint16_t;
  using Compute = float;
  using Target = AsItIs;
  static constexpr int kPerPack = 8;
  static __device__ __forceinline__ float load(Storage stored) {
    return __uint_as_float(static_cast<std::uint32_t>(stored) << 16);
  }
  static __device__ __forceinline__ Storage store(float value, AsItIs = {}) {
    return __bfloat16_as_ushort(__float2bfloat16_rn(value));
  }
  static __device__ __forceinline__ void unpack(const Pack<16>& pack, float (&v)[8]) {
    for (int i = 0; i < 4; ++i) {
      v[2 * i] = __uint_as_float(pack.words[i] << 16);
      v[2 * i + 1] = __uint_as_float(pack.words[i] & 0xffff0000u);
    }
  }
  static __device__ __forceinline__ Pack<16> pack(const float (&v)[8], AsItIs = {}) {
    Pack<16> result;
    for (int i = 0; i < 4; ++i) {
      const __nv_bfloat162 two = __floats2bfloat162_rn(v[2 * i], v[2 * i + 1]);
      result.words[i] = *reinterpret_cast<const std::uint32_t*>(&two);
    }
    return result;
  }
};

struct Float16 {
  using Storage = std::uint16_t;
  using Compute = float;
  using Target = AsItIs;
  static constexpr int kPerPack = 8;
  static __device__ __forceinline__ float load(Storage stored) {
    return __half2float(__ushort_as_half(stored));
  }
  static __device__ __forceinline__ Storage store(float value, AsItIs = {}) {
    return __half_as_ushort(__float2half_rn(value));
  }
  static __device__ __forceinline__ void unpack(const Pack<16>& pack, float (&v)[8]) {
    for (int i = 0; i < 4; ++i) {
      v[2 * i] = load(static_cast<Storage>(pack.words[i] & 0xffffu));
      v[2 * i + 1] = load(static_cast<Storage>(pack.words[i] >> 16));
    }
  }
  static __device__ __forceinline__ Pack<16> pack(const float (&v)[8], AsItIs = {}) {
    Pack<16> result;
    for (int i = 0; i < 4; ++i) {
      const __half2 two = __floats2half2_rn(v[2 * i], v[2 * i + 1]);
      result.words[i] = *reinterpret_cast<const std::uint32_t*>(&two);
    }
    return result;
  }
};

}  // namespace rotary::internal::cuda
