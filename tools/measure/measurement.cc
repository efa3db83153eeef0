// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

#include "tools/measure/measurement.h"

#include <cstddef>
#include <cstdint>
#include <iterator>

namespace rotary::measure {

double Measurement::gb_per_s(const Timing& timing) const noexcept {
  const auto bytes = shape.elements() * static_cast<std::int64_t>(size_of(dtype));
  return 2.0 * static_cast<double>(bytes) / timing.ns;
}

namespace {

/// All interleaved calls: the references, then the variants.
struct Candidates {
  std::vector<std::function<void()>> calls{};
  std::vector<Variant> variants{};
  std::size_t scale[std::size(kPlacements)] = {};  // indices into `calls`
  std::size_t copy[std::size(kPlacements)] = {};
  std::size_t first_variant = 0;

  Candidates(const Workload& workload, int threads) : variants(variants_of(workload.dtype())) {
    for (const Placement placement : kPlacements) {
      const auto at = static_cast<std::size_t>(placement);
      scale[at] = calls.size();
      calls.emplace_back([&workload, placement, threads] { workload.scale(placement, threads); });
      if (placement == Placement::kInPlace) continue;
      copy[at] = calls.size();
      calls.emplace_back([&workload, placement, threads] { workload.copy(placement, threads); });
    }
    copy[static_cast<std::size_t>(Placement::kInPlace)] =
        copy[static_cast<std::size_t>(Placement::kOutOfPlace)];
    first_variant = calls.size();
    for (const Variant& variant : variants)
      calls.emplace_back(RotateCall(workload, variant, threads));
  }

  /// The index of a variant's call; none if it is not measured.
  std::optional<std::size_t> find(const Variant& wanted) const {
    for (std::size_t i = 0; i < variants.size(); ++i) {
      const Variant& v = variants[i];
      if (v.pairing == wanted.pairing && v.placement == wanted.placement &&
          v.tables == wanted.tables) {
        return first_variant + i;
      }
    }
    return {};
  }
};

}  // namespace

std::vector<Measurement> measure_variants(const Workload& workload, int threads,
                                          const Effort& effort,
                                          const std::function<void(double)>& progress) {
  const Candidates candidates(workload, threads);
  const InterleavedTimings timings = time_interleaved(candidates.calls, effort, progress);
  std::vector<Measurement> rows;
  for (std::size_t i = 0; i < candidates.variants.size(); ++i) {
    const Variant& variant = candidates.variants[i];
    const auto placement = static_cast<std::size_t>(variant.placement);
    const std::size_t self = candidates.first_variant + i;
    Measurement row{.shape = workload.shape(),
                    .dtype = workload.dtype(),
                    .threads = threads,
                    .variant = variant,
                    .rotate = timings.timing(self),
                    .copy = timings.timing(candidates.copy[placement]),
                    .scale = timings.timing(candidates.scale[placement]),
                    .times_copy = timings.ratio(self, candidates.copy[placement]),
                    .times_scale = timings.ratio(self, candidates.scale[placement])};
    Variant other = variant;
    other.pairing = Pairing::kHalf;
    const auto half = candidates.find(other);
    if (half && *half != self) row.times_half = timings.ratio(self, *half);
    other = variant;
    other.tables = Tables::kReady;
    const auto ready = candidates.find(other);
    if (ready && *ready != self) row.times_ready = timings.ratio(self, *ready);
    rows.push_back(row);
  }
  return rows;
}

}  // namespace rotary::measure
