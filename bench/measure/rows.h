// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// The rows of `rotary bench`.
#pragma once

#include <functional>
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

  /// Every byte once read and once written.
  double gb_per_s() const noexcept { return gb_per_s(rotate); }
  double gb_per_s(const Timing& timing) const noexcept;
  double times_copy() const noexcept { return rotate.ns / copy.ns; }
  double times_scale() const noexcept { return rotate.ns / scale.ns; }
};

/// Every variant of the type and what it is compared with, all taking turns.
std::vector<Row> measure_rows(const Workbench& bench, int threads, const Effort& effort,
                              const std::function<void(double)>& progress = {});

}  // namespace rotary::measure
