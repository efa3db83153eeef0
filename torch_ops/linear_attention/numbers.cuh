// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// Types of elements, and what sums of them are held in.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

namespace rotary::torch::cuda {

constexpr int kWarp = 32;

template <typename T>
struct WideOf {
  using type = float;
};
template <>
struct WideOf<double> {
  using type = double;
};
template <typename T>
using Wide = typename WideOf<T>::type;

__device__ inline float widen(float x) { return x; }
__device__ inline double widen(double x) { return x; }
__device__ inline float widen(__nv_bfloat16 x) { return __bfloat162float(x); }
__device__ inline float widen(__half x) { return __half2float(x); }

__device__ inline void store(float* to, float x) { *to = x; }
__device__ inline void store(double* to, double x) { *to = x; }
__device__ inline void store(__nv_bfloat16* to, float x) { *to = __float2bfloat16(x); }
__device__ inline void store(__half* to, float x) { *to = __float2half(x); }

/// Elements that lie side by side, moved at once.
template <typename T, int kEach>
struct alignas(kEach * sizeof(T)) Pack {
  T at[kEach];
};

template <int kEach, typename T>
__device__ Pack<T, kEach> load_pack(const T* from) {
  return *reinterpret_cast<const Pack<T, kEach>*>(from);
}
template <typename T, int kEach>
__device__ void store_pack(T* to, const Pack<T, kEach>& pack) {
  *reinterpret_cast<Pack<T, kEach>*>(to) = pack;
}

/// The sum over a warp, in every lane.
template <typename T>
__device__ T warp_sum(T x) {
#pragma unroll
  for (int step = kWarp / 2; step > 0; step /= 2) x += __shfl_xor_sync(0xffffffffU, x, step);
  return x;
}

}  // namespace rotary::torch::cuda
