// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// The rows of `rotary bench`.
#pragma once

#include <functional>
#include <optional>
#include <vector>

#include "bench/measure/clock.h"
#include "bench/measure/shape.h"
#include "bench/measure/workbench.h"

namespace rotary::measure {

struct Row {
  Shape shape{};
  DType dtype = DType::kFloat32;
  int threads = 1;
  Variant variant{};
  Timing rotate{};
  Timing copy{};   // memcpy of q and k to where the row writes; in place, to aligned memory
  Timing scale{};  // q and k times a number, to where the row writes

  // How many times as long as others: medians of ratios (clock.h), not ratios of medians.
  double times_copy = 0.0;
  double times_scale = 0.0;
  std::optional<double> times_half{};   // interleaved rows: the same in the other pairing
  std::optional<double> times_ready{};  // on the fly: the same with tables ready

  /// Every byte once read and once written.
  double gb_per_s() const noexcept { return gb_per_s(rotate); }
  double gb_per_s(const Timing& timing) const noexcept;
};

/// Every variant of the type and what it is compared with, all taking turns.
std::vector<Row> measure_rows(const Workbench& bench, int threads, const Effort& effort,
                              const std::function<void(double)>& progress = {});

}  // namespace rotary::measure
