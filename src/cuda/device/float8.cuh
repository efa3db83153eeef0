// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// The 8-bit types: written only. A value is multiplied by the operand's scale in float32, then
// rounded to nearest even; what is too large becomes the largest, a NaN stays one. Which of the two
// types it is, is told at run time: the branch is the same for a whole launch.
#pragma once

#include <cuda_fp8.h>

#include <cstdint>

#include "cuda/device/memory.cuh"
#include "cuda/device/phase.cuh"

namespace rotary::internal::cuda {

struct Float8 {
  using Storage = std::uint8_t;
  struct Target {
    float scale;
    __nv_fp8_interpretation_t type;
  };

  static __device__ __forceinline__ Storage store(float value, const Target& to) {
    return __nv_cvt_float_to_fp8(product(value, to.scale), __NV_SATFINITE, to.type);
  }
  template <int kCount>
  static __device__ __forceinline__ Pack<kCount> pack(const float (&v)[kCount], const Target& to) {
    Pack<kCount> result;
#pragma unroll
    for (int i = 0; i < kCount / 4; ++i) {
      const auto two = [&](int k) -> std::uint32_t {
        const float2 values{product(v[k], to.scale), product(v[k + 1], to.scale)};
        return __nv_cvt_float2_to_fp8x2(values, __NV_SATFINITE, to.type);
      };
      result.words[i] = two(4 * i) | two(4 * i + 2) << 16;
    }
    return result;
  }
};

}  // namespace rotary::internal::cuda
