// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// FP8 output (E4M3 or E5M2), store only. A value is multiplied by the operand's scale in float32,
// rounded to nearest even and saturated to the largest finite value; NaN stays NaN. The format is a
// run-time parameter: the branch is uniform across the launch.
#pragma once

#include <cuda_fp8.h>

#include <cstdint>

#include "cuda/device/packed.cuh"
#include "cuda/device/phase.cuh"

namespace rotary::internal::cuda {

struct Float8 {
  using Storage = std::uint8_t;
  struct StoreParams {
    float scale;
    __nv_fp8_interpretation_t format;
  };

  static __device__ __forceinline__ Storage store(float value, const StoreParams& params) {
    return __nv_cvt_float_to_fp8(mul_rn(value, params.scale), __NV_SATFINITE, params.format);
  }
  template <int kCount>
  static __device__ __forceinline__ Packed<kCount> pack(const float (&v)[kCount],
                                                        const StoreParams& params) {
    return params.format == __NV_E4M3 ? pack<kCount, __NV_E4M3>(v, params.scale)
                                      : pack<kCount, __NV_E5M2>(v, params.scale);
  }

 private:
  template <int kCount, __nv_fp8_interpretation_t kFormat>
  static __device__ __forceinline__ Packed<kCount> pack(const float (&v)[kCount], float scale) {
    Packed<kCount> result;
#pragma unroll
    for (int i = 0; i < kCount / 4; ++i) {
      const auto two = [&](int k) -> std::uint32_t {
        const float2 values{mul_rn(v[k], scale), mul_rn(v[k + 1], scale)};
        return __nv_cvt_float2_to_fp8x2(values, __NV_SATFINITE, kFormat);
      };
      result.words[i] = two(4 * i) | two(4 * i + 2) << 16;
    }
    return result;
  }
};

}  // namespace rotary::internal::cuda
