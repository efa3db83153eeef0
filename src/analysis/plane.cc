// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// Position vectors in the plane of their two principal components.

#include <array>
#include <cmath>
#include <cstddef>

#include "analysis/checks.h"
#include "rotary/analysis.h"
#include "support/portable_cos_sin.h"

namespace rotary {
namespace {

using Vector = std::vector<double>;

double dot(const Vector& a, const double* b) {
  double sum = 0.0;
  for (std::size_t i = 0; i < a.size(); ++i) sum += a[i] * b[i];
  return sum;
}

/// Makes `v` orthogonal to `first`, if that is given, and of length 1. False if nothing is left.
bool normalise(Vector& v, const Vector* first) {
  if (first != nullptr) {
    const double shared = dot(v, first->data());
    for (std::size_t i = 0; i < v.size(); ++i) v[i] -= shared * (*first)[i];
  }
  const double length = std::sqrt(dot(v, v.data()));
  if (!(length > 1e-12)) return false;
  for (double& x : v) x /= length;
  return true;
}

/// The covariance of the rows of `data` [n x size] times v, not divided by n.
Vector times_covariance(const Vector& data, std::size_t size, const Vector& v) {
  Vector result(size, 0.0);
  for (std::size_t row = 0; row < data.size(); row += size) {
    const double weight = dot(v, &data[row]);
    for (std::size_t i = 0; i < size; ++i) result[i] += weight * data[row + i];
  }
  return result;
}

/// Principal axes by orthogonal iteration.
std::array<Vector, 2> principal_axes(const Vector& data, std::size_t size) {
  constexpr int kMaxIterations = 500;
  constexpr double kTolerance = 1e-12;
  std::array<Vector, 2> axes{Vector(size), Vector(size)};
  for (std::size_t i = 0; i < size; ++i) {
    axes[0][i] = 1.0 + 0.001 * static_cast<double>(i);
    axes[1][i] = i % 2 == 0 ? 1.0 : -1.0;
  }
  for (int k = 0; k < kMaxIterations; ++k) {
    double change = 0.0;
    for (std::size_t a = 0; a < 2; ++a) {
      Vector next = times_covariance(data, size, axes[a]);
      if (!normalise(next, a == 1 ? &axes[0] : nullptr)) {
        axes[a].assign(size, 0.0);  // fewer dimensions than axes
        continue;
      }
      change += 1.0 - std::fabs(dot(next, axes[a].data()));
      axes[a] = next;
    }
    if (std::fabs(change) < kTolerance && k > 8) break;
  }
  for (Vector& axis : axes) {  // the sign is arbitrary: the largest component is positive
    double largest = 0.0;
    for (const double x : axis) largest = std::fabs(x) > std::fabs(largest) ? x : largest;
    if (largest < 0.0) {
      for (double& x : axis) x = -x;
    }
  }
  return axes;
}

}  // namespace

std::vector<double> position_plane(const Frequencies& frequencies,
                                   std::span<const double> positions) {
  internal::require_one_axis("position_plane", frequencies);
  const auto size = static_cast<std::size_t>(frequencies.rotary_dim());
  const std::size_t n = positions.size();
  if (n == 0) return {};
  Vector data;
  data.reserve(n * size);
  for (const double position : positions) {
    for (const double f : frequencies.values) {
      const auto [c, s] = internal::portable_cos_sin(f * position);
      data.push_back(c);
      data.push_back(s);
    }
  }
  for (std::size_t i = 0; i < size; ++i) {
    double mean = 0.0;
    for (std::size_t row = 0; row < n; ++row) mean += data[row * size + i];
    mean /= static_cast<double>(n);
    for (std::size_t row = 0; row < n; ++row) data[row * size + i] -= mean;
  }
  const std::array<Vector, 2> axes = principal_axes(data, size);
  std::vector<double> plane;
  plane.reserve(2 * n);
  for (std::size_t row = 0; row < n; ++row) {
    for (const Vector& axis : axes) plane.push_back(dot(axis, &data[row * size]));
  }
  return plane;
}

}  // namespace rotary
