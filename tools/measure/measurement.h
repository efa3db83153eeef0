// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// Measurements of all rotation variants: the rows of `rotary bench`.
#pragma once

#include <functional>
#include <optional>
#include <vector>

#include "tools/measure/interleaved_timing.h"
#include "tools/measure/shape.h"
#include "tools/measure/workload.h"

namespace rotary::measure {

struct Measurement {
  Shape shape{};
  DType dtype = DType::kFloat32;
  int threads = 1;
  Variant variant{};
  Timing rotate{};
  Timing copy{};   // memcpy of q and k to the destination; for in place, to aligned memory
  Timing scale{};  // q and k times a scalar, to the destination

  // Ratios of times: medians of the ratios within each repetition (interleaved_timing.h).
  double times_copy = 0.0;
  double times_scale = 0.0;
  std::optional<double> times_half{};   // interleaved pairing over half
  std::optional<double> times_ready{};  // tables on the fly over ready

  /// Every byte is read once and written once.
  double gb_per_s() const noexcept { return gb_per_s(rotate); }
  double gb_per_s(const Timing& timing) const noexcept;
};

/// Times every variant of the type and its references, interleaved.
std::vector<Measurement> measure_variants(const Workload& workload, int threads,
                                          const Effort& effort,
                                          const std::function<void(double)>& progress = {});

}  // namespace rotary::measure
