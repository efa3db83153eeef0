// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

#include "bench/measure/rows.h"

#include <cstddef>
#include <cstdint>
#include <iterator>

namespace rotary::measure {

double Row::gb_per_s(const Timing& timing) const noexcept {
  const auto bytes = shape.elements() * static_cast<std::int64_t>(size_of(dtype));
  return 2.0 * static_cast<double>(bytes) / timing.ns;
}

std::vector<Row> measure_rows(const Workbench& bench, int threads, const Effort& effort,
                              const std::function<void(double)>& progress) {
  const std::vector<Variant> variants = variants_of(bench.dtype());
  std::vector<std::function<void()>> candidates;
  // Scales by their placement, then copies, of which there is none in place.
  constexpr std::size_t kScales = std::size(kPlacements);
  for (const Placement placement : kPlacements) {
    candidates.emplace_back([&bench, placement, threads] { bench.scale(placement, threads); });
  }
  for (const Placement placement : {Placement::kOutOfPlace, Placement::kUnaligned}) {
    candidates.emplace_back([&bench, placement, threads] { bench.copy(placement, threads); });
  }
  const std::size_t references = candidates.size();
  for (const Variant& variant : variants) {
    candidates.emplace_back(Rotation(bench, variant, threads));
  }

  const std::vector<Timing> timings = time_in_turns(candidates, effort, progress);
  std::vector<Row> rows;
  for (std::size_t i = 0; i < variants.size(); ++i) {
    const Placement placement = variants[i].placement;
    const bool unaligned = placement == Placement::kUnaligned;
    rows.push_back({.shape = bench.shape(),
                    .dtype = bench.dtype(),
                    .threads = threads,
                    .variant = variants[i],
                    .rotate = timings[references + i],
                    .copy = timings[unaligned ? kScales + 1 : kScales],
                    .scale = timings[static_cast<std::size_t>(placement)]});
  }
  return rows;
}

}  // namespace rotary::measure
