// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// Times of several candidates that take turns, so that what disturbs the machine disturbs them all.
#pragma once

#include <cstddef>
#include <functional>
#include <utility>
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

/// Times of candidates, one of each repetition.
class Turns {
 public:
  /// samples[candidate][repetition] in ns; every candidate has as many, one at least.
  explicit Turns(std::vector<std::vector<double>> samples) : samples_(std::move(samples)) {}

  Timing timing(std::size_t candidate) const;
  /// How many times as long one took as another: the median over the repetitions of the ratio in
  /// each, so that a machine that is slower for a while is so for both.
  double ratio(std::size_t candidate, std::size_t other) const;

 private:
  std::vector<std::vector<double>> samples_;
};

/// Runs every candidate once for warmth and to see how long it takes, then again and again until
/// `effort` is spent, in an order that is drawn for each repetition (the same in every run of the
/// program): what a call leaves in the caches helps some successors and hinders others, so none
/// must have the same predecessor each time. Short calls are repeated for at least 100 us in a row,
/// after one that is not timed, so that they find the caches as they themselves leave them.
/// `progress` hears the part that is done, 0 to 1.
Turns time_in_turns(const std::vector<std::function<void()>>& candidates, const Effort& effort,
                    const std::function<void(double)>& progress = {});

}  // namespace rotary::measure
