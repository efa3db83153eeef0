// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// Sums of cosines over the pairs, sum_i cos(m f_i), with a bound on their error.
//
// The bound, with u = 2^-53, n pairs, and |f^ - f| <= r |f| for the frequency f^ in use: an angle
// is off by at most m |f| (r + 2u), rounding of the product included, and so is its cosine. cos and
// sin of the C library are within 2u (one ulp below 1 is u). A block computes
// cos((m + j) f) = cos(m f) cos(j f) - sin(m f) sin(j f), which adds 12 u: four factors, two
// products and a difference. The sum of n terms, none above 1, adds n^2 u. Together
//   |B^ - B| <= u (n^2 + 16 n) + m (r + 4 u) sum |f|
// where the slack covers terms of second order.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace rotary::internal {

class CosineSums {
 public:
  static constexpr std::size_t kBlock = 64;
  /// Sums at the distances first, first + 1, ..., first + kBlock - 1.
  using Block = std::array<double, kBlock>;

  /// `relative_error`: of each frequency, r above.
  CosineSums(std::vector<double> frequencies, double relative_error);

  double at(std::int64_t distance) const;
  Block block(std::int64_t first);
  /// The bound for both.
  double error(std::int64_t distance) const;

 private:
  std::vector<double> frequencies_;
  double constant_error_;
  double error_per_distance_;
  // [pairs x kBlock]: cos(j f) and sin(j f), made by the first block().
  std::vector<double> cos_{};
  std::vector<double> sin_{};
};

}  // namespace rotary::internal
