// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// Times of several candidates that take turns, so that what disturbs the machine disturbs them all.
#pragma once

#include <functional>
#include <vector>

namespace rotary::measure {

/// Of one call.
struct Timing {
  double ns = 0.0;      // median over the repetitions
  double spread = 0.0;  // distance of the quartiles, as a part of the median
};

/// How long to go on.
struct Effort {
  double seconds = 1.0;
  int fewest = 5;
  int most = 101;
};

/// Runs every candidate once for warmth and to see how long it takes, then again and again, in an
/// order that changes from repetition to repetition (the same in every run of the program), until
/// `effort` is spent. Short calls are repeated for at least 100 us in a row, after one that is not
/// timed, so that they find the caches as they themselves leave them. `progress` hears the part
/// that is done, 0 to 1.
std::vector<Timing> time_in_turns(const std::vector<std::function<void()>>& candidates,
                                  const Effort& effort,
                                  const std::function<void(double)>& progress = {});

}  // namespace rotary::measure
