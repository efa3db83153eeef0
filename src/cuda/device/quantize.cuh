// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// Elements to 8-bit types as rotary/kv_cache.h defines it: scaled in float32, rounded to nearest
// even and saturated, with the bits of the CPU engine (cpu/quantize-inl.h).
#pragma once

#include <cuda_fp8.h>

#include <cstdint>

#include "cuda/fused_params.h"
#include "rotary/tensor.h"

namespace rotary::internal::cuda {

__device__ __forceinline__ bool is_quantized(DType type) {
  return type == DType::kFloat8E4M3 || type == DType::kFloat8E5M2 || type == DType::kInt8;
}

/// The number that computed scales map the largest magnitude to.
__device__ __forceinline__ float max_of_type(DType type) {
  return type == DType::kInt8 ? 127.0f : type == DType::kFloat8E4M3 ? 448.0f : 57344.0f;
}

struct Quantizer {
  float scale;
  bool multiplies;
  DType type;

  __device__ __forceinline__ std::uint32_t operator()(float x) const {
    const float scaled = multiplies ? __fmul_rn(x, scale) : __fdiv_rn(x, scale);
    if (type == DType::kInt8) {
      if (scaled != scaled) return 0u;
      const float bounded = fminf(fmaxf(scaled, -128.0f), 127.0f);
      return static_cast<std::uint32_t>(__float2int_rn(bounded)) & 0xffu;
    }
    if (scaled != scaled) return 0x7fu;
    const auto format = type == DType::kFloat8E5M2 ? __NV_E5M2 : __NV_E4M3;
    return __nv_cvt_float_to_fp8(scaled, __NV_SATFINITE, format);
  }
};

/// By the given scale of a head; without one elements are not scaled. The product with the
/// reciprocal of a power of two is the quotient, in a fraction of the time.
__device__ __forceinline__ Quantizer given_quantizer(const StoreParams& store, std::int32_t head) {
  if (store.scale == nullptr) return {1.0f, true, store.type};
  const float scale = store.scale[head * store.scale_stride];
  const std::uint32_t bits = __float_as_uint(scale);
  const std::uint32_t exponent = bits >> 23;
  const bool is_exact = (bits & 0x7fffffu) == 0 && exponent >= 1 && exponent <= 253;
  if (store.multiplies || !is_exact) return {scale, store.multiplies, store.type};
  return {__frcp_rn(scale), true, store.type};
}

/// By the scale of a group with that maximum magnitude.
__device__ __forceinline__ Quantizer computed_quantizer(const StoreParams& store, float max) {
  const float bounded = fminf(max, __uint_as_float(0x7f7fffffu));
  const float of_type = max_of_type(store.type);
  const float scale = store.multiplies ? fminf(__fdiv_rn(of_type, bounded), 0x1p126f)
                                       : fmaxf(__fdiv_rn(bounded, of_type), 0x1p-126f);
  return {scale, store.multiplies, store.type};
}

/// The larger magnitude; NaN does not count.
__device__ __forceinline__ float max_magnitude(float max, float x) { return fmaxf(max, fabsf(x)); }

}  // namespace rotary::internal::cuda
