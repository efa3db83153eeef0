// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// Errors of cos and sin in float32, bfloat16 and fast math, against the exact angle.

#include <algorithm>
#include <cmath>
#include <numbers>

#include "analysis/checks.h"
#include "rotary/analysis.h"
#include "support/half.h"
#include "support/portable_cos_sin.h"

namespace rotary {
namespace {

float rounded_to_bfloat16(float value) {
  return internal::from_bfloat16(internal::to_bfloat16(value));
}

/// The angle that the method takes the cosine of, in radians.
double angle_of(AngleMethod method, double frequency, std::int64_t position) {
  auto f = static_cast<float>(frequency);
  auto p = static_cast<float>(position);
  if (method == AngleMethod::kBfloat16Angle) {
    f = rounded_to_bfloat16(f);
    p = rounded_to_bfloat16(p);
  }
  const float angle = f * p;
  if (method != AngleMethod::kFastMath) return angle;
  const float turn = angle * static_cast<float>(0.5 / std::numbers::pi);
  return static_cast<double>(turn) * 2.0 * std::numbers::pi;
}

double table_value(AngleMethod method, double value) {
  if (method != AngleMethod::kBfloat16Table) return value;
  return rounded_to_bfloat16(static_cast<float>(value));
}

}  // namespace

std::vector<AngleError> angle_errors(const Frequencies& frequencies, AngleMethod method,
                                     std::span<const std::int64_t> positions) {
  internal::require_one_axis("angle_errors", frequencies);
  std::vector<AngleError> errors;
  errors.reserve(positions.size());
  for (const std::int64_t position : positions) {
    internal::require_range("angle_errors", "positions", position, -internal::kMaxAnalysisPosition,
                            internal::kMaxAnalysisPosition);
    AngleError worst;
    for (std::int64_t pair = 0; pair < frequencies.pairs; ++pair) {
      const double f = frequencies(pair);
      const auto p = static_cast<double>(position);
      // The exact angle is high + low.
      const double high = f * p;
      const double low = std::fma(f, p, -high);
      const double angle = angle_of(method, f, position);
      const double gap = std::fabs((angle - high) - low);
      if (gap > worst.angle) {
        worst.angle = gap;
        worst.pair = pair;
      }
      const auto [c, s] = internal::portable_cos_sin(high);
      const double cos_exact = c - low * s;
      const double sin_exact = s + low * c;
      const auto [c_angle, s_angle] = internal::portable_cos_sin(angle);
      worst.value = std::max({worst.value, std::fabs(table_value(method, c_angle) - cos_exact),
                              std::fabs(table_value(method, s_angle) - sin_exact)});
    }
    errors.push_back(worst);
  }
  return errors;
}

}  // namespace rotary
