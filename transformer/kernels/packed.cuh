// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// Packed elements: what a thread loads or stores in one access.
#pragma once

#include "transformer/kernels/elements.cuh"

namespace rotary::transformer::cuda {

/// Consecutive elements of a tensor in registers, moved in one access: by default 16 bytes, a
/// thread's widest. Memory must be aligned to the size of the access.
template <typename T, int kCount = 16 / sizeof(T)>
struct alignas(kCount * sizeof(T)) Packed {
  static constexpr int kSize = kCount;
  static_assert(kCount * sizeof(T) <= 16);

  T data[kCount];

  __device__ T& operator[](int i) { return data[i]; }
  __device__ const T& operator[](int i) const { return data[i]; }

  static __device__ Packed load(const T* from) { return *reinterpret_cast<const Packed*>(from); }
  __device__ void store(T* to) const { *reinterpret_cast<Packed*>(to) = *this; }
};

}  // namespace rotary::transformer::cuda
