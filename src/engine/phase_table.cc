// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

#include "engine/phase_table.h"

namespace rotary::internal {

PhaseTable make_phase_table(const Frequencies& f, Precision precision) {
  PhaseTable table{.precision = precision,
                   .pairs = f.pairs,
                   .axes = f.axes,
                   .scale = f.scale,
                   .growth_origin = f.growth_origin};
  table.sums.assign(static_cast<std::size_t>(f.pairs), 0);
  for (std::int64_t a = 0; a < f.axes; ++a) {
    for (std::int64_t i = 0; i < f.pairs; ++i) {
      const Turns turns = to_turns(f(i, a));
      table.fractions.push_back(turns.fraction);
      table.wholes.push_back(static_cast<std::uint64_t>(turns.whole));
      table.sums[static_cast<std::size_t>(i)] += turns.fraction;
      if (precision == Precision::kReference) table.radians.push_back(static_cast<float>(f(i, a)));
      if (!f.growth.empty()) {
        table.growth.push_back(f.growth[static_cast<std::size_t>(i * f.axes + a)]);
      }
    }
  }
  const std::int64_t padded = (f.pairs + kPadding - 1) / kPadding * kPadding;
  table.sums_low.assign(static_cast<std::size_t>(padded), 0);
  table.sums_high.assign(static_cast<std::size_t>(padded), 0);
  for (std::size_t i = 0; i < table.sums.size(); ++i) {
    table.sums_low[i] = static_cast<std::uint32_t>(table.sums[i]);
    table.sums_high[i] = static_cast<std::uint32_t>(table.sums[i] >> 32);
  }
  return table;
}

}  // namespace rotary::internal
