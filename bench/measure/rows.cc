// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

#include "bench/measure/rows.h"

#include <cstddef>
#include <cstdint>

namespace rotary::measure {

double Row::gb_per_s(const Timing& timing) const noexcept {
  const auto bytes = shape.elements() * static_cast<std::int64_t>(size_of(dtype));
  return 2.0 * static_cast<double>(bytes) / timing.ns;
}

std::vector<Row> measure_rows(const Workbench& bench, int threads, const Effort& effort,
                              const std::function<void(double)>& progress) {
  constexpr std::size_t kReferences = 3;
  const std::vector<Variant> variants = variants_of(bench.dtype());
  std::vector<std::function<void()>> candidates;
  candidates.emplace_back([&] { bench.copy(threads); });
  candidates.emplace_back([&] { bench.scale(Placement::kInPlace, threads); });
  candidates.emplace_back([&] { bench.scale(Placement::kOutOfPlace, threads); });
  for (const Variant& variant : variants) {
    candidates.emplace_back(Rotation(bench, variant, threads));
  }

  const std::vector<Timing> timings = time_in_turns(candidates, effort, progress);
  std::vector<Row> rows;
  for (std::size_t i = 0; i < variants.size(); ++i) {
    const bool in_place = variants[i].placement == Placement::kInPlace;
    rows.push_back({.shape = bench.shape(),
                    .dtype = bench.dtype(),
                    .threads = threads,
                    .variant = variants[i],
                    .rotate = timings[kReferences + i],
                    .copy = timings[0],
                    .scale = timings[in_place ? 1 : 2]});
  }
  return rows;
}

}  // namespace rotary::measure
