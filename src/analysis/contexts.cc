// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// Critical dimension, and the sums of cosines of one rotation over a context.

#include <cmath>
#include <numbers>

#include "analysis/checks.h"
#include "analysis/cosine_sums.h"
#include "rotary/analysis.h"

namespace rotary {
namespace {

using internal::CosineSums;

/// The doubles of `frequencies` define the rotation: they have no error.
CosineSums exact_sums(const char* function, const Frequencies& frequencies, std::int64_t context) {
  internal::require_one_axis(function, frequencies);
  internal::require_range(function, "context", context, 0, internal::kMaxAnalysisPosition);
  if (!frequencies.growth.empty()) {
    internal::reject("[", function, "] a rotation with growth (xPos) has no sum of cosines");
  }
  return {frequencies.values, 0.0};
}

}  // namespace

std::int64_t critical_dim(const Frequencies& frequencies, std::int64_t trained_context) {
  internal::require_range("critical_dim", "trained_context", trained_context, 1,
                          internal::kMaxAnalysisPosition);
  std::int64_t dims = 0;
  for (const double length : wavelengths(frequencies)) {
    if (length <= static_cast<double>(trained_context)) dims += 2;
  }
  return dims;
}

double extrapolation_limit(double theta, std::int64_t rotary_dim, std::int64_t critical_dim) {
  if (!(theta > 0.0) || !std::isfinite(theta)) {
    internal::reject("[extrapolation_limit] theta must be positive and finite, got ", theta);
  }
  internal::require_range("extrapolation_limit", "rotary_dim", rotary_dim, 2, 1 << 20);
  internal::require_range("extrapolation_limit", "critical_dim", critical_dim, 0, rotary_dim);
  const double exponent = static_cast<double>(critical_dim) / static_cast<double>(rotary_dim);
  return 2.0 * std::numbers::pi * std::pow(theta, exponent);
}

CosineMinimum smallest_cosine_sum(const Frequencies& frequencies, std::int64_t context) {
  CosineSums sums = exact_sums("smallest_cosine_sum", frequencies, context);
  CosineMinimum minimum{.value = static_cast<double>(frequencies.pairs)};
  for (std::int64_t first = 0; first <= context; first += CosineSums::kBlock) {
    const CosineSums::Block block = sums.block(first);
    for (std::size_t j = 0; j < block.size(); ++j) {
      const std::int64_t m = first + static_cast<std::int64_t>(j);
      if (m <= context && block[j] < minimum.value) minimum = {.value = block[j], .distance = m};
    }
  }
  minimum.error = sums.error(minimum.distance);
  return minimum;
}

std::optional<std::int64_t> negative_distance(const Frequencies& frequencies,
                                              std::int64_t context) {
  CosineSums sums = exact_sums("negative_distance", frequencies, context);
  for (std::int64_t first = 1; first <= context; first += CosineSums::kBlock) {
    const CosineSums::Block block = sums.block(first);
    for (std::size_t j = 0; j < block.size(); ++j) {
      const std::int64_t m = first + static_cast<std::int64_t>(j);
      if (m <= context && block[j] + sums.error(m) < 0.0) return m;
    }
  }
  return std::nullopt;
}

}  // namespace rotary
