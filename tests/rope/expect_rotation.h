// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// Tolerance of a rotation against the exact one, and the comparison.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "rope/placed_tensor.h"
#include "rotary/pairing.h"

namespace rotary {

inline double epsilon_of(DType dtype) {
  if (dtype == DType::kFloat16) return 0x1p-10;
  if (dtype == DType::kBFloat16) return 0x1p-7;
  return dtype == DType::kFloat32 ? 0x1p-23 : 0x1p-52;
}

/// Tolerance in units of epsilon of the type that is computed in (float32 for the 16-bit types),
/// relative to the length of the rotated pair.
///
/// float32: cos and sin are within 7.0e-8 = 0.6 epsilon, as a vector 0.6 sqrt(2) = 0.85; scale, z
/// times scale, the two products and their sum round by half an epsilon each, and by Cauchy their
/// weights |x c| + |y s| stay below the length: 0.85 + 4/2 < 3. That is 3.6e-7.
/// float64: 0.7 epsilon for cos and sin, up to 0.8 for 1000 positions times 1.8e-19, 1 for growth
/// and its exponent: 1.5 sqrt(2) + 1 + 4/2 < 5.2.
inline double units_of(DType dtype) { return dtype == DType::kFloat64 ? 5.2 : 3.0; }

/// Unit in the last place of the type at `value`.
inline double ulp_at(DType dtype, double value) {
  const int least = dtype == DType::kFloat16 ? -14 : -126;
  const int exponent = value == 0.0 ? least : std::max(std::ilogb(value), least);
  return std::ldexp(epsilon_of(dtype), exponent);
}

/// Tolerance of an element: `units` of the error of the computation, and for the 16-bit types the
/// final rounding.
inline double tolerance(DType dtype, double value, double length, double units) {
  if (dtype == DType::kFloat64) return units * 0x1p-52 * length;
  const double computed = units * 0x1p-23 * length;
  return dtype == DType::kFloat32 ? computed : computed + 0.5 * ulp_at(dtype, value);
}

/// The rotary slice of the output.
struct WrittenSlice {
  std::int64_t offset;
  std::int64_t pairs;
  Pairing pairing;

  bool holds(std::int64_t dim) const { return dim >= offset && dim < offset + 2 * pairs; }
  /// The element of the head that forms a pair with element `dim`.
  std::int64_t partner(std::int64_t dim) const {
    const std::int64_t i = dim - offset;
    if (pairing == Pairing::kInterleaved) return offset + (i ^ 1);
    return i < pairs ? dim + pairs : dim - pairs;
  }
};

/// Whether `out` holds `expected` in its rotary slices, and exactly that outside of them.
inline testing::AssertionResult holds_rotation(const PlacedTensor& out, const WrittenSlice& slice,
                                               const std::vector<long double>& expected,
                                               double units) {
  const auto indices = out.indices();
  const DType dtype = out.view().dtype;
  const std::int64_t head_dim = out.sizes().head_dim;
  for (std::size_t i = 0; i < indices.size(); ++i) {
    const std::int64_t dim = static_cast<std::int64_t>(i) % head_dim;
    const auto wanted = static_cast<double>(expected[i]);
    double allowed = 0.0;
    if (slice.holds(dim)) {
      const std::int64_t other = static_cast<std::int64_t>(i) - dim + slice.partner(dim);
      const auto partner = static_cast<double>(expected[static_cast<std::size_t>(other)]);
      allowed = tolerance(dtype, wanted, std::sqrt(wanted * wanted + partner * partner), units);
    }
    const double got = out.memory().get(indices[i]);
    const auto off = static_cast<double>(std::fabs(static_cast<long double>(got) - expected[i]));
    if (!(off <= allowed)) {
      return testing::AssertionFailure() << "element " << i << " is " << got << ", expected "
                                         << wanted << ", off by " << off << ", allowed " << allowed;
    }
  }
  return testing::AssertionSuccess();
}

/// Whether the memory of `out` equals `before` except for its rotary slices, or for the whole view.
inline testing::AssertionResult kept_the_rest(const PlacedTensor& out, const WrittenSlice& slice,
                                              const reference::Elements& before, bool whole_heads) {
  reference::Elements wanted = before;
  const auto indices = out.indices();
  const std::int64_t head_dim = out.sizes().head_dim;
  std::int64_t dim = 0;
  for (const std::size_t place : indices) {
    if (whole_heads || slice.holds(dim)) wanted.copy(place, out.memory());
    if (++dim == head_dim) dim = 0;
  }
  if (!(wanted == out.memory())) {
    return testing::AssertionFailure() << "memory outside the rotation changed";
  }
  return testing::AssertionSuccess();
}

}  // namespace rotary
