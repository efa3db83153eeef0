// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// Approximate exponential and reciprocal of one instruction each, and GELU.
#pragma once

namespace rotary::transformer::cuda {

/// 2^x, relative error about 2^-22; subnormal arguments and results count as 0.
__device__ inline float exp2_approx(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}
/// 1 / x to 1 ulp; subnormal arguments and results count as 0.
__device__ inline float reciprocal_approx(float x) {
  float y;
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

/// Normal distribution at |z|: upper tail 1 - cdf(|z|), and exp(-z^2 / 2), the density times
/// sqrt(2 pi). One exponential serves both: Abramowitz and Stegun, 7.1.26. The tail's error is
/// below 7.5e-8, and small relative to the tail itself.
struct NormalTail {
  float tail;
  float bell;
};
__device__ inline NormalTail normal_tail(float z) {
  constexpr float kHalfLog2E = 0.72134752F;
  const float e = exp2_approx(-kHalfLog2E * z * z);
  const float t = reciprocal_approx(1.0F + 0.3275911F * 0.70710678F * fabsf(z));
  return {e * t *
              (0.127414796F + t * (-0.142248368F +
                                   t * (0.7107068705F + t * (-0.7265760135F + t * 0.5307027145F)))),
          e};
}

/// GELU with the error function: z cdf(z).
__device__ inline float gelu(float z) { return fmaxf(z, 0.0F) - fabsf(z) * normal_tail(z).tail; }

/// GELU and its derivative, cdf(z) + z density(z), which costs little more.
struct Gelu {
  float value;
  float derivative;
};
__device__ inline Gelu gelu_with_derivative(float z) {
  const NormalTail normal = normal_tail(z);
  const float cdf = z > 0.0F ? 1.0F - normal.tail : normal.tail;
  return {z * cdf, cdf + 0.39894228F * z * normal.bell};
}
__device__ inline float gelu_derivative(float z) { return gelu_with_derivative(z).derivative; }

}  // namespace rotary::transformer::cuda
