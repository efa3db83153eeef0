// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// Thread mapping of the layers: a thread has eight consecutive columns of a row.
#pragma once

#include "transformer/kernels/packed.cuh"
#include "transformer/kernels/philox.h"
#include "transformer/kernels/reduce.cuh"
#include "transformer/layers/kernels.h"

namespace rotary::transformer::cuda {

/// Columns of a thread: those that one Philox output decides on.
constexpr int kVecSize = kPhiloxValues;
constexpr int kThreads = kTileColumns / kVecSize;
constexpr int kWarps = kThreads / kWarpSize;

/// Eight elements in registers: one 16-byte access of 16-bit types, two of float.
template <typename T>
struct Vec {
  static constexpr int kPerPack = Packed<T>::kSize;
  static constexpr int kPacks = kVecSize / kPerPack;

  Packed<T> pack[kPacks];

  __device__ T& operator[](int i) { return pack[i / kPerPack][i % kPerPack]; }
  __device__ const T& operator[](int i) const { return pack[i / kPerPack][i % kPerPack]; }

  static __device__ Vec load(const T* from) {
    Vec x;
#pragma unroll
    for (int p = 0; p < kPacks; ++p) x.pack[p] = Packed<T>::load(from + p * kPerPack);
    return x;
  }

  __device__ Vec<float> to_float() const {
    Vec<float> x;
#pragma unroll
    for (int i = 0; i < kVecSize; ++i) x[i] = to_accum((*this)[i]);
    return x;
  }
};

/// Both elements of a register at once.
template <>
__device__ inline Vec<float> Vec<__nv_bfloat16>::to_float() const {
  const auto& words = reinterpret_cast<const Packed<std::uint32_t>&>(pack[0]);
  Vec<float> x;
#pragma unroll
  for (int i = 0; i < kVecSize; i += 2) {
    const float2 two = unpack_two<__nv_bfloat16>(words[i / 2]);
    x[i] = two.x;
    x[i + 1] = two.y;
  }
  return x;
}

template <typename T>
__device__ Vec<float> load_vec(const T* from) {
  return Vec<T>::load(from).to_float();
}

/// Rounds to nearest even.
template <typename T>
__device__ void store_vec(T* to, const Vec<float>& x) {
#pragma unroll
  for (int p = 0; p < Vec<T>::kPacks; ++p) {
    Packed<T> pack;
#pragma unroll
    for (int i = 0; i < pack.kSize; ++i) pack[i] = from_accum<T>(x[p * pack.kSize + i]);
    pack.store(to + p * pack.kSize);
  }
}

}  // namespace rotary::transformer::cuda
