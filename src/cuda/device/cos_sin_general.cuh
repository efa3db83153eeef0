// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// cos and sin of a pair in the general case: frequencies on several axes, real-valued positions,
// reference precision, growth (xPos), quotients of two sets of frequencies.
#pragma once

#include <cstdint>

#include "cuda/device/cos_sin.cuh"

namespace rotary::internal::cuda {

/// Position of a token on each axis, loaded on demand.
struct TokenPosition {
  const PositionParams& positions;
  std::int64_t batch;
  std::int64_t token;
  __device__ __forceinline__ DevicePosition at(std::int32_t axis) const {
    return load_position(positions, axis, batch, token);
  }
};

/// One position for all axes, loaded once for several pairs.
struct SamePosition {
  DevicePosition value;
  __device__ __forceinline__ DevicePosition at(std::int32_t /*axis*/) const { return value; }
};

__device__ inline std::uint64_t word_at(const GeneralParams& p, std::int32_t plane,
                                        std::int32_t axis, std::int32_t i) {
  return as_generic_memory(p.words)[plane + axis * p.pair_count + i];
}

template <class Position>
__device__ inline std::uint64_t phase_of(const GeneralParams& p, const FrequencyPlanes& planes,
                                         const Position& position, std::int32_t i) {
  std::uint64_t sum = 0;
  for (std::int32_t a = 0; a < p.axes; ++a) {
    const FixedPosition x = to_fixed_on_device(position.at(a));
    const std::uint64_t fraction = word_at(p, planes.fractions, a, i);
    std::uint64_t phase = x.count * fraction;
    if (x.rest != 0) {
      phase += __umul64hi(x.rest, fraction) + x.rest * word_at(p, planes.wholes, a, i);
    }
    sum += x.negative ? ~phase + 1 : phase;
  }
  return sum;
}

/// Reference precision: the angle is the float32 product that transformers forms. cos and sin are
/// evaluated in double and rounded to float32, which rounds them correctly.
template <class Position>
__device__ inline CosSin<double> reference_cos_sin(const GeneralParams& p,
                                                   const FrequencyPlanes& planes,
                                                   const Position& position, std::int32_t i) {
  float angle = 0.0f;
  for (std::int32_t a = 0; a < p.axes; ++a) {
    const float f = __uint_as_float(static_cast<std::uint32_t>(word_at(p, planes.radians, a, i)));
    if (f == 0.0f) continue;
    const double x = position.at(a).real;
    angle = __fadd_rn(angle, __fmul_rn(f, __double2float_rn(x)));
  }
  double s = 0.0;
  double c = 0.0;
  sincos(static_cast<double>(angle), &s, &c);
  return {static_cast<double>(__double2float_rn(c)), static_cast<double>(__double2float_rn(s))};
}

template <class Position>
__device__ inline CosSin<double> cos_sin_of_planes(const GeneralParams& p,
                                                   const FrequencyPlanes& planes,
                                                   const Position& position, std::int32_t i) {
  if (planes.radians >= 0) return reference_cos_sin(p, planes, position, i);
  return cos_sin_on_device<double>(phase_of(p, planes, position, i));
}

template <class Position>
__device__ inline double growth_exponent(const GeneralParams& p, const FrequencyPlanes& planes,
                                         const Position& position, std::int32_t i) {
  if (planes.growth < 0) return 0.0;
  double exponent = 0.0;
  for (std::int32_t a = 0; a < p.axes; ++a) {
    const auto g = __longlong_as_double(static_cast<std::int64_t>(word_at(p, planes.growth, a, i)));
    const double x = position.at(a).real - planes.growth_origin;
    exponent = __dadd_rn(exponent, __dmul_rn(g, x));
  }
  return exponent;
}

/// cos and sin before the magnitude is applied: z / |z|.
template <typename T, class Position>
__device__ inline CosSin<T> unit_cos_sin(const GeneralParams& p, const Position& position,
                                         std::int32_t i) {
  const bool divides = p.divisor.fractions >= 0 || p.divisor.radians >= 0;
  if (p.phases.radians < 0 && p.divisor.radians < 0) {
    std::uint64_t phase = phase_of(p, p.phases, position, i);
    if (divides) phase -= phase_of(p, p.divisor, position, i);
    return cos_sin_on_device<T>(phase);
  }
  CosSin<double> z = cos_sin_of_planes(p, p.phases, position, i);
  if (divides) {
    const CosSin<double> w = cos_sin_of_planes(p, p.divisor, position, i);
    z = {__dadd_rn(__dmul_rn(z.cos, w.cos), __dmul_rn(z.sin, w.sin)),
         __dsub_rn(__dmul_rn(z.sin, w.cos), __dmul_rn(z.cos, w.sin))};
  }
  return {static_cast<T>(z.cos), static_cast<T>(z.sin)};
}

template <typename T, class Position>
__device__ inline CosSin<T> cos_sin_at(const GeneralParams& p, const Position& position,
                                       std::int32_t i) {
  CosSin<T> z = unit_cos_sin<T>(p, position, i);
  if (p.phases.growth < 0 && p.divisor.growth < 0) {
    apply_magnitude(p.magnitude, z);
    return z;
  }
  const double exponent =
      growth_exponent(p, p.phases, position, i) - growth_exponent(p, p.divisor, position, i);
  const double magnitude = p.scale * exp(exponent);
  const T factor = static_cast<T>(p.inverts ? 1.0 / magnitude : magnitude);
  return {mul_rn(z.cos, factor), mul_rn(z.sin, p.conjugates ? -factor : factor)};
}

/// cos and sin (times the magnitude) of the i-th pair of the launch.
template <typename T>
__device__ inline CosSin<T> cos_sin_of(const GeneralParams& p, std::int64_t batch,
                                       std::int64_t token, std::int32_t i) {
  return cos_sin_at<T>(p, TokenPosition{p.positions, batch, token}, i);
}

}  // namespace rotary::internal::cuda
