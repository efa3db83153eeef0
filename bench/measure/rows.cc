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

namespace {

/// Everything that is timed in turns: for each placement what its rows are compared with, then the
/// rows, so that they are close in time.
struct Candidates {
  std::vector<std::function<void()>> calls{};
  std::vector<Variant> variants{};
  std::vector<std::size_t> rows{};  // places in `calls`, of each variant
  std::size_t scale[std::size(kPlacements)] = {};
  std::size_t copy[std::size(kPlacements)] = {};

  Candidates(const Workbench& bench, int threads) {
    for (const Placement placement : kPlacements) {
      const auto at = static_cast<std::size_t>(placement);
      scale[at] = calls.size();
      calls.emplace_back([&bench, placement, threads] { bench.scale(placement, threads); });
      if (placement != Placement::kInPlace) {
        copy[at] = calls.size();
        calls.emplace_back([&bench, placement, threads] { bench.copy(placement, threads); });
      }
      for (const Variant& variant : variants_of(bench.dtype())) {
        if (variant.placement != placement) continue;
        rows.push_back(calls.size());
        variants.push_back(variant);
        calls.emplace_back(Rotation(bench, variant, threads));
      }
    }
    copy[static_cast<std::size_t>(Placement::kInPlace)] =
        copy[static_cast<std::size_t>(Placement::kOutOfPlace)];
  }

  /// The place of a variant's call, if it is one that is measured.
  std::optional<std::size_t> find(const Variant& wanted) const {
    for (std::size_t i = 0; i < variants.size(); ++i) {
      const Variant& v = variants[i];
      if (v.pairing == wanted.pairing && v.placement == wanted.placement &&
          v.tables == wanted.tables) {
        return rows[i];
      }
    }
    return {};
  }
};

}  // namespace

std::vector<Row> measure_rows(const Workbench& bench, int threads, const Effort& effort,
                              const std::function<void(double)>& progress) {
  const Candidates candidates(bench, threads);
  const Turns turns = time_in_turns(candidates.calls, effort, progress);
  std::vector<Row> rows;
  for (const Variant& variant : variants_of(bench.dtype())) {
    const auto placement = static_cast<std::size_t>(variant.placement);
    const std::size_t self = *candidates.find(variant);
    Row row{.shape = bench.shape(),
            .dtype = bench.dtype(),
            .threads = threads,
            .variant = variant,
            .rotate = turns.timing(self),
            .copy = turns.timing(candidates.copy[placement]),
            .scale = turns.timing(candidates.scale[placement]),
            .times_copy = turns.ratio(self, candidates.copy[placement]),
            .times_scale = turns.ratio(self, candidates.scale[placement])};
    Variant other = variant;
    other.pairing = Pairing::kHalf;
    const auto half = candidates.find(other);
    if (half && *half != self) row.times_half = turns.ratio(self, *half);
    other = variant;
    other.tables = Tables::kReady;
    const auto ready = candidates.find(other);
    if (ready && *ready != self) row.times_ready = turns.ratio(self, *ready);
    rows.push_back(row);
  }
  return rows;
}

}  // namespace rotary::measure
