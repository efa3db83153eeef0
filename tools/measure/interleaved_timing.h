// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// Interleaved timing of several candidates: disturbances of the machine affect all of them.
#pragma once

#include <cstddef>
#include <functional>
#include <utility>
#include <vector>

namespace rotary::measure {

/// Time of one call.
struct Timing {
  double ns = 0.0;      // median over the repetitions
  double spread = 0.0;  // interquartile range over the median
};

/// Length of a measurement.
struct Effort {
  double seconds = 1.0;
  int min_repetitions = 5;
  int max_repetitions = 101;
};

/// Samples of all candidates, one per repetition.
class InterleavedTimings {
 public:
  /// samples[candidate][repetition] in ns; the same number for all, at least one.
  explicit InterleavedTimings(std::vector<std::vector<double>> samples)
      : samples_(std::move(samples)) {}

  Timing timing(std::size_t candidate) const;
  /// Time of a candidate over that of another: the median of the ratios within each repetition, so
  /// that a temporarily slower machine affects both.
  double ratio(std::size_t candidate, std::size_t other) const;

 private:
  std::vector<std::vector<double>> samples_;
};

/// Runs every candidate once as a warm-up, then repeats all of them until `effort` is spent. The
/// order is shuffled in each repetition (with a fixed seed), since the cache contents that one call
/// leaves affect the next. A sample of a short call is a loop of at least 100 us after one untimed
/// call, so that it starts from its own cache contents. `progress` receives the fraction done, 0 to
/// 1.
InterleavedTimings time_interleaved(const std::vector<std::function<void()>>& candidates,
                                    const Effort& effort,
                                    const std::function<void(double)>& progress = {});

}  // namespace rotary::measure
