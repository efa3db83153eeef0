// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// The wavelengths of a rope as bars in the terminal, on a logarithmic scale:
//
//   100k ┤                     ▅▇
//    10k ┤               ▁▂▄▅▆███    pairs from left to right
//   8192 ┼╌╌╌╌╌╌╌╌╌╌╌▂▄▆█████████    the trained context
//    100 ┤     ▁▂▄▆▇████████████
//     10 ┤▃▄▆▇██████████████████
//        └┬───────┬───────┬─────
//         0       8       16
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tools/terminal.h"
#include "tools/wavelengths.h"

namespace rotary::cli {

/// Lines without a newline; at most 64 bars in 12 rows. `trained_context` 0: no line. `axes` are
/// the names of the axes; with several, a row of letters tells which axis drives which pair.
std::vector<std::string> draw_chart(const std::vector<PairWave>& waves,
                                    const std::vector<std::string>& axes,
                                    std::int64_t trained_context, const Terminal& terminal);

}  // namespace rotary::cli
