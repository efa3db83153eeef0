// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

#include "analysis/cosine_sums.h"

#include <cmath>
#include <utility>

#include "support/portable_cos_sin.h"

namespace rotary::internal {

CosineSums::CosineSums(std::vector<double> frequencies, double relative_error)
    : frequencies_(std::move(frequencies)) {
  constexpr double kUnit = 0x1p-53;
  double sum = 0.0;
  for (const double f : frequencies_) sum += std::fabs(f);
  const auto n = static_cast<double>(frequencies_.size());
  constant_error_ = kUnit * (n * n + 16.0 * n);
  error_per_distance_ = sum * (relative_error + 4.0 * kUnit);
}

double CosineSums::at(std::int64_t distance) const {
  const auto m = static_cast<double>(distance);
  double sum = 0.0;
  for (const double f : frequencies_) sum += portable_cos_sin(m * f).cos;
  return sum;
}

double CosineSums::error(std::int64_t distance) const {
  return constant_error_ + static_cast<double>(distance) * error_per_distance_;
}

CosineSums::Block CosineSums::block(std::int64_t first) {
  if (cos_.empty()) {
    for (const double f : frequencies_) {
      for (std::size_t j = 0; j < kBlock; ++j) {
        const auto [c, s] = portable_cos_sin(static_cast<double>(j) * f);
        cos_.push_back(c);
        sin_.push_back(s);
      }
    }
  }
  Block sums{};
  for (std::size_t i = 0; i < frequencies_.size(); ++i) {
    const double angle = static_cast<double>(first) * frequencies_[i];
    const auto [c, s] = portable_cos_sin(angle);
    const double* cos_row = &cos_[i * kBlock];
    const double* sin_row = &sin_[i * kBlock];
    for (std::size_t j = 0; j < kBlock; ++j) sums[j] += c * cos_row[j] - s * sin_row[j];
  }
  return sums;
}

}  // namespace rotary::internal
