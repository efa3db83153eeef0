// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// A bar chart of the wavelengths of a rope for the terminal, on a logarithmic scale:
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

#include "explain/terminal.h"
#include "explain/wavelengths.h"

namespace rotary::explain {

/// Lines without a newline: at most 64 bars in 12 rows; none if no pair rotates. `trained_context`
/// is drawn as a horizontal line, 0: none. `axes` are the names of the axes; with several, a row of
/// letters says which axis rotates which pair.
std::vector<std::string> draw_chart(const std::vector<PairWavelength>& pairs,
                                    const std::vector<std::string>& axes,
                                    std::int64_t trained_context, const Terminal& terminal);

}  // namespace rotary::explain
