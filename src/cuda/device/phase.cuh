// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// cos and sin of fixed-point phases, bit for bit as engine/phase.h defines them. Every product and
// sum is an intrinsic, so that the compiler cannot contract operations into other FMAs.
#pragma once

#include <cstddef>
#include <cstdint>
#include <tuple>

#include "engine/phase.h"

namespace rotary::internal::cuda {

__device__ __forceinline__ float mul_rn(float a, float b) { return __fmul_rn(a, b); }
__device__ __forceinline__ double mul_rn(double a, double b) { return __dmul_rn(a, b); }
__device__ __forceinline__ float fma_rn(float a, float b, float c) { return __fmaf_rn(a, b, c); }
__device__ __forceinline__ double fma_rn(double a, double b, double c) { return __fma_rn(a, b, c); }

/// A coefficient as a constant expression: device code cannot call std::array's operator[].
template <typename T, int kFrom>
struct CosCoefficient {
  static constexpr T kValue = EighthPolynomials<T>::kCos[kFrom];
};
template <typename T, int kFrom>
struct SinCoefficient {
  static constexpr T kValue = EighthPolynomials<T>::kSin[kFrom];
};

template <template <typename, int> class Coefficient, typename T, int kFrom, int kEnd>
__device__ __forceinline__ T horner(T sum, T x2) {
  if constexpr (kFrom == kEnd) {
    return sum;
  } else {
    constexpr T kNext = Coefficient<T, kFrom>::kValue;
    return horner<Coefficient, T, kFrom + 1, kEnd>(fma_rn(sum, x2, kNext), x2);
  }
}

/// cos and sin of x eighths of a turn, |x| <= 1.
template <typename T>
__device__ __forceinline__ CosSin<T> cos_sin_eighth_on_device(T x) {
  using Polynomials = EighthPolynomials<T>;
  constexpr int kCosEnd = static_cast<int>(std::tuple_size_v<decltype(Polynomials::kCos)>);
  constexpr int kSinEnd = static_cast<int>(std::tuple_size_v<decltype(Polynomials::kSin)>);
  constexpr T kCosFirst = CosCoefficient<T, 0>::kValue;
  constexpr T kSinFirst = SinCoefficient<T, 0>::kValue;
  constexpr T kLead = Polynomials::kLead;
  const T x2 = mul_rn(x, x);
  const T even = horner<CosCoefficient, T, 1, kCosEnd>(kCosFirst, x2);
  const T odd = horner<SinCoefficient, T, 1, kSinEnd>(kSinFirst, x2);
  return {even, fma_rn(kLead, x, mul_rn(odd, x))};
}

__device__ __forceinline__ float flip_sign(float value, std::uint32_t bit) {
  return __uint_as_float(__float_as_uint(value) ^ (bit << 31));
}
__device__ __forceinline__ double flip_sign(double value, std::uint32_t bit) {
  return __hiloint2double(__double2hiint(value) ^ static_cast<int>(bit << 31),
                          __double2loint(value));
}

/// Extends the first octant to the whole circle, without branches.
template <typename T>
__device__ __forceinline__ CosSin<T> in_quadrant_on_device(CosSin<T> z, std::uint32_t quadrant) {
  const bool swaps = (quadrant & 1u) != 0;
  const T c = swaps ? z.sin : z.cos;
  const T s = swaps ? z.cos : z.sin;
  return {flip_sign(c, ((quadrant + 1u) >> 1) & 1u), flip_sign(s, (quadrant >> 1) & 1u)};
}

template <typename T>
__device__ CosSin<T> cos_sin_on_device(std::uint64_t phase);

template <>
__device__ __forceinline__ CosSin<float> cos_sin_on_device<float>(std::uint64_t phase) {
  const auto top = static_cast<std::uint32_t>(phase >> 32);
  const std::uint32_t quadrant = (top + (1u << 29)) >> 30;
  const auto rest = static_cast<std::int32_t>(top - (quadrant << 30));
  const float x = mul_rn(__int2float_rn(rest), 0x1p-29f);
  return in_quadrant_on_device(cos_sin_eighth_on_device(x), quadrant);
}

template <>
__device__ __forceinline__ CosSin<double> cos_sin_on_device<double>(std::uint64_t phase) {
  const std::uint64_t quadrant = (phase + (std::uint64_t{1} << 61)) >> 62;
  const auto rest = static_cast<std::int64_t>(phase - (quadrant << 62));
  const double x = mul_rn(__ll2double_rn(rest), 0x1p-61);
  return in_quadrant_on_device(cos_sin_eighth_on_device(x), static_cast<std::uint32_t>(quadrant));
}

}  // namespace rotary::internal::cuda
