// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// The row of complex numbers where row.cuh does not reach: pairs that turn with several axes, real
// positions, reference precision, growth, quotients of two sets of frequencies.
#pragma once

#include <cstdint>

#include "cuda/device/row.cuh"

namespace rotary::internal::cuda {

/// A token: its position on each axis, read when it is wanted.
struct TokenPlace {
  const PositionParams& positions;
  std::int64_t batch;
  std::int64_t token;
  __device__ __forceinline__ DevicePosition at(std::int32_t axis) const {
    return any_position(positions, axis, batch, token);
  }
};

/// The same position on all axes, read once for several pairs.
struct OnePlace {
  DevicePosition position;
  __device__ __forceinline__ DevicePosition at(std::int32_t /*axis*/) const { return position; }
};

__device__ inline std::uint64_t word_at(const AnyParams& p, std::int32_t plane, std::int32_t axis,
                                        std::int32_t i) {
  return as_memory(p.words)[plane + axis * p.pair_count + i];
}

template <class Place>
__device__ inline std::uint64_t any_phase(const AnyParams& p, const FrequencyPlanes& planes,
                                          const Place& place, std::int32_t i) {
  std::uint64_t sum = 0;
  for (std::int32_t a = 0; a < p.axes; ++a) {
    const FixedPosition x = to_fixed_on_device(place.at(a));
    const std::uint64_t fraction = word_at(p, planes.fractions, a, i);
    std::uint64_t phase = x.count * fraction;
    if (x.rest != 0) {
      phase += __umul64hi(x.rest, fraction) + x.rest * word_at(p, planes.wholes, a, i);
    }
    sum += x.negative ? ~phase + 1 : phase;
  }
  return sum;
}

/// The angle in float32, as transformers forms it; through double, so that cos and sin are rounded
/// correctly.
template <class Place>
__device__ inline CosSin<double> reference_cos_sin(const AnyParams& p,
                                                   const FrequencyPlanes& planes,
                                                   const Place& place, std::int32_t i) {
  float angle = 0.0f;
  for (std::int32_t a = 0; a < p.axes; ++a) {
    const float f = __uint_as_float(static_cast<std::uint32_t>(word_at(p, planes.radians, a, i)));
    if (f == 0.0f) continue;
    const double x = place.at(a).real;
    angle = __fadd_rn(angle, __fmul_rn(f, __double2float_rn(x)));
  }
  double s = 0.0;
  double c = 0.0;
  sincos(static_cast<double>(angle), &s, &c);
  return {static_cast<double>(__double2float_rn(c)), static_cast<double>(__double2float_rn(s))};
}

template <class Place>
__device__ inline CosSin<double> any_cos_sin(const AnyParams& p, const FrequencyPlanes& planes,
                                             const Place& place, std::int32_t i) {
  if (planes.radians >= 0) return reference_cos_sin(p, planes, place, i);
  return cos_sin_on_device<double>(any_phase(p, planes, place, i));
}

template <class Place>
__device__ inline double growth_exponent(const AnyParams& p, const FrequencyPlanes& planes,
                                         const Place& place, std::int32_t i) {
  if (planes.growth < 0) return 0.0;
  double exponent = 0.0;
  for (std::int32_t a = 0; a < p.axes; ++a) {
    const auto g = __longlong_as_double(static_cast<std::int64_t>(word_at(p, planes.growth, a, i)));
    const double x = place.at(a).real - planes.growth_origin;
    exponent = __dadd_rn(exponent, __dmul_rn(g, x));
  }
  return exponent;
}

/// z / |z|.
template <typename T, class Place>
__device__ inline CosSin<T> unit_z(const AnyParams& p, const Place& place, std::int32_t i) {
  const bool divides = p.divisor.fractions >= 0 || p.divisor.radians >= 0;
  if (p.phases.radians < 0 && p.divisor.radians < 0) {
    std::uint64_t phase = any_phase(p, p.phases, place, i);
    if (divides) phase -= any_phase(p, p.divisor, place, i);
    return cos_sin_on_device<T>(phase);
  }
  CosSin<double> z = any_cos_sin(p, p.phases, place, i);
  if (divides) {
    const CosSin<double> w = any_cos_sin(p, p.divisor, place, i);
    z = {__dadd_rn(__dmul_rn(z.cos, w.cos), __dmul_rn(z.sin, w.sin)),
         __dsub_rn(__dmul_rn(z.sin, w.cos), __dmul_rn(z.cos, w.sin))};
  }
  return {static_cast<T>(z.cos), static_cast<T>(z.sin)};
}

template <typename T, class Place>
__device__ inline CosSin<T> z_at(const AnyParams& p, const Place& place, std::int32_t i) {
  CosSin<T> z = unit_z<T>(p, place, i);
  if (p.phases.growth < 0 && p.divisor.growth < 0) {
    apply_size(p.size, z);
    return z;
  }
  const double exponent =
      growth_exponent(p, p.phases, place, i) - growth_exponent(p, p.divisor, place, i);
  const double size = p.scale * exp(exponent);
  const T factor = static_cast<T>(p.inverts ? 1.0 / size : size);
  return {product(z.cos, factor), product(z.sin, p.conjugates ? -factor : factor)};
}

/// z of the i-th pair of the launch.
template <typename T>
__device__ inline CosSin<T> z_of(const AnyParams& p, std::int64_t batch, std::int64_t token,
                                 std::int32_t i) {
  return z_at<T>(p, TokenPlace{p.positions, batch, token}, i);
}

}  // namespace rotary::internal::cuda
