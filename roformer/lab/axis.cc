// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// Axes of charts.
#include <fmt/core.h>

#include <algorithm>
#include <cmath>

#include "roformer/lab/chart.h"

namespace rotary::roformer::lab {
namespace {

/// 1, 2 or 5 times a power of ten, so that at most `count` of them fit into the range.
double round_step(double range, int count) {
  const double rough = range / count;
  const double power = std::pow(10.0, std::floor(std::log10(rough)));
  for (const double factor : {1.0, 2.0, 5.0}) {
    if (rough <= factor * power) return factor * power;
  }
  return 10.0 * power;
}

std::vector<double> linear_ticks(double low, double high) {
  const double step = round_step(high - low, 7);
  std::vector<double> ticks;
  for (double i = std::ceil(low / step - 1e-9); i * step <= high + 1e-9 * step; ++i) {
    ticks.push_back(i * step);
  }
  return ticks;
}

bool is_power_of_two(double value) {
  int exponent = 0;
  return std::frexp(value, &exponent) == 0.5;
}

/// Powers of two for lengths within 16 octaves; else 1, 2 and 5 times powers of ten, or powers of
/// ten alone over many decades.
std::vector<double> log_ticks(double low, double high) {
  std::vector<double> ticks;
  if (is_power_of_two(low) && is_power_of_two(high) && high / low <= 65536.0) {
    for (double tick = low; tick <= high; tick *= 2.0) ticks.push_back(tick);
    return ticks;
  }
  // Within less than a decade, ticks of a linear axis.
  if (high / low < 8.0) return linear_ticks(low, high);
  const bool fine = high / low < 200.0;
  for (double power = std::pow(10.0, std::floor(std::log10(low))); power <= high; power *= 10.0) {
    for (const double factor : {1.0, 2.0, 5.0}) {
      const double tick = factor * power;
      const bool inside = tick >= low * (1 - 1e-9) && tick <= high * (1 + 1e-9);
      if (inside && (fine || factor == 1.0)) ticks.push_back(tick);
    }
  }
  return ticks;
}

}  // namespace

double Axis::share(double value) const {
  return scale == Scale::kLog ? std::log(value / low) / std::log(high / low)
                              : (value - low) / (high - low);
}

Axis make_axis(double low, double high, Scale scale) {
  Axis axis{.low = low, .high = high, .scale = scale};
  if (scale == Scale::kLog) {
    const double margin = high > low ? std::pow(high / low, 0.04) : 2.0;
    axis.low /= margin;
    axis.high *= margin;
    const bool powers = is_power_of_two(low) && is_power_of_two(high) && high > low;
    axis.ticks = powers ? log_ticks(low, high) : log_ticks(axis.low, axis.high);
    return axis;
  }
  const double margin = high > low ? 0.05 * (high - low) : std::max(1.0, std::abs(low)) * 0.05;
  axis.low -= margin;
  axis.high += margin;
  axis.ticks = linear_ticks(axis.low, axis.high);
  return axis;
}

std::string tick_label(double value) {
  if (value != 0.0 && (std::abs(value) >= 1e5 || std::abs(value) < 1e-3)) {
    const double power = std::floor(std::log10(std::abs(value)) + 1e-9);
    return fmt::format("{:g}e{:g}", value / std::pow(10.0, power), power);
  }
  // Without the noise of a product: 0.30000000000000004.
  return fmt::format("{:g}", value + 0.0);  // -0 is 0
}

}  // namespace rotary::roformer::lab
