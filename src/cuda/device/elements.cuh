// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// Element types: conversion between storage and compute type, scalar and in 16-byte packs. Stores
// round once, to nearest even, as support/half.h does (NaN stays NaN, its payload may change).
#pragma once

#include <cstdint>

#include "cuda/device/packed.cuh"
#include "device/elements.cuh"

namespace rotary::internal::cuda {

/// Run-time parameters of a store: none, except for 8-bit types (float8.cuh).
struct NoStoreParams {};

template <typename T>
struct PlainElement {
  using Storage = T;
  using Compute = T;
  using StoreParams = NoStoreParams;
  static constexpr int kPerPack = 16 / static_cast<int>(sizeof(T));
  static __device__ __forceinline__ T load(T stored) { return stored; }
  static __device__ __forceinline__ T store(T value, NoStoreParams = {}) { return value; }
};

struct Float32 : PlainElement<float> {
  static __device__ __forceinline__ void unpack(const Packed<16>& pack, float (&v)[4]) {
    for (int i = 0; i < 4; ++i) v[i] = __uint_as_float(pack.words[i]);
  }
  static __device__ __forceinline__ Packed<16> pack(const float (&v)[4], NoStoreParams = {}) {
    Packed<16> result;
    for (int i = 0; i < 4; ++i) result.words[i] = __float_as_uint(v[i]);
    return result;
  }
};

struct Float64 : PlainElement<double> {
  static __device__ __forceinline__ void unpack(const Packed<16>& pack, double (&v)[2]) {
    for (int i = 0; i < 2; ++i) {
      v[i] = __hiloint2double(static_cast<int>(pack.words[2 * i + 1]),
                              static_cast<int>(pack.words[2 * i]));
    }
  }
  static __device__ __forceinline__ Packed<16> pack(const double (&v)[2], NoStoreParams = {}) {
    Packed<16> result;
    for (int i = 0; i < 2; ++i) {
      result.words[2 * i] = static_cast<std::uint32_t>(__double2loint(v[i]));
      result.words[2 * i + 1] = static_cast<std::uint32_t>(__double2hiint(v[i]));
    }
    return result;
  }
};

/// 16-bit elements T, stored as their bits.
template <typename T>
struct HalfElement {
  using Type = T;
  using Storage = std::uint16_t;
  using Compute = float;
  using StoreParams = NoStoreParams;
  static constexpr int kPerPack = 8;
  static __device__ __forceinline__ float load(Storage stored) {
    return device::unpack_two<T>(stored).x;
  }
  static __device__ __forceinline__ Storage store(float value, NoStoreParams = {}) {
    const T rounded = device::from_accum<T>(value);
    return reinterpret_cast<const Storage&>(rounded);
  }
  /// Packs of eight elements, or of four.
  template <int kBytes>
  static __device__ __forceinline__ void unpack(const Packed<kBytes>& pack,
                                                float (&v)[kBytes / 2]) {
    for (int i = 0; i < kBytes / 4; ++i) {
      const float2 two = device::unpack_two<T>(pack.words[i]);
      v[2 * i] = two.x;
      v[2 * i + 1] = two.y;
    }
  }
  template <int kCount>
  static __device__ __forceinline__ Packed<2 * kCount> pack(const float (&v)[kCount],
                                                            NoStoreParams = {}) {
    Packed<2 * kCount> result;
    for (int i = 0; i < kCount / 2; ++i) {
      result.words[i] = device::pack_two<T>(v[2 * i], v[2 * i + 1]);
    }
    return result;
  }
};

using BFloat16 = HalfElement<__nv_bfloat16>;
using Float16 = HalfElement<__half>;

}  // namespace rotary::internal::cuda
