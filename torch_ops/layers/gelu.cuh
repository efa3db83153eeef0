// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// GELU with the error function, and its slope, of numbers in registers.
#pragma once

namespace rotary::torch::cuda {

/// 2^x and 1 / x to an ulp or two, by one instruction each: where arguments and results are not
/// denormal, which nothing here depends on.
__device__ inline float power_of_two(float x) {
  float y = 0.0F;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}
__device__ inline float reciprocal(float x) {
  float y = 0.0F;
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

/// 1 - cdf of the normal distribution at |z|, and the density there times sqrt(2 pi), from one
/// exponential. Abramowitz and Stegun, 7.1.26; the error is below 7.5e-8, and small beside the
/// value far out, too.
struct Normal {
  float tail;
  float bell;
};
__device__ inline Normal normal(float z) {
  constexpr float kHalfLog2E = 0.72134752F;
  const float e = power_of_two(-kHalfLog2E * z * z);
  const float t = reciprocal(1.0F + 0.3275911F * 0.70710678F * fabsf(z));
  return {e * t *
              (0.127414796F + t * (-0.142248368F +
                                   t * (0.7107068705F + t * (-0.7265760135F + t * 0.5307027145F)))),
          e};
}

__device__ inline float gelu(float z) { return fmaxf(z, 0.0F) - fabsf(z) * normal(z).tail; }

/// The slope is cdf(z) + z density(z); both come for little more than one.
struct Gelu {
  float value;
  float slope;
};
__device__ inline Gelu gelu_with_slope(float z) {
  const Normal at_z = normal(z);
  const float cdf = z > 0.0F ? 1.0F - at_z.tail : at_z.tail;
  return {z * cdf, cdf + 0.39894228F * z * at_z.bell};
}
__device__ inline float gelu_slope(float z) { return gelu_with_slope(z).slope; }

}  // namespace rotary::torch::cuda
