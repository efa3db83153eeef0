// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

#include "tools/wavelengths.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <numbers>

#include "tools/words.h"

namespace rotary::cli {
namespace {

double length_of(const Frequencies& frequencies, std::int64_t pair) {
  double squares = 0.0;
  for (std::int64_t axis = 0; axis < frequencies.axes; ++axis) {
    squares += frequencies(pair, axis) * frequencies(pair, axis);
  }
  return 2.0 * std::numbers::pi / std::sqrt(squares);  // infinite where nothing turns
}

std::int64_t axis_of(const Frequencies& frequencies, std::int64_t pair) {
  std::int64_t found = -1;
  for (std::int64_t axis = 0; axis < frequencies.axes; ++axis) {
    if (frequencies(pair, axis) == 0.0) continue;
    if (found >= 0) return -1;
    found = axis;
  }
  return found;
}

template <typename Test>
std::vector<std::int64_t> pairs_where(const std::vector<PairWave>& waves, Test test) {
  std::vector<std::int64_t> pairs;
  for (std::size_t i = 0; i < waves.size(); ++i) {
    if (test(waves[i])) pairs.push_back(static_cast<std::int64_t>(i));
  }
  return pairs;
}

/// "Pairs 35-63 (29 of 64)", "Pair 3 (1 of 4)".
std::string name_pairs(const std::vector<std::int64_t>& pairs, std::size_t total) {
  return fmt::format("{} {} ({} of {})", pairs.size() == 1 ? "Pair" : "Pairs", ranges(pairs),
                     pairs.size(), total);
}

std::string explain_turns(const std::vector<PairWave>& waves, std::int64_t trained) {
  const auto limit = static_cast<double>(trained);
  const auto slow = pairs_where(
      waves, [limit](const PairWave& w) { return !w.stands_still() && w.length > limit; });
  const auto slow_before = pairs_where(
      waves, [limit](const PairWave& w) { return !w.stands_still() && w.unscaled > limit; });
  if (slow.empty()) {
    return fmt::format(
        "Every pair that turns completes at least one turn within {} positions, the trained "
        "context: beyond it no pair meets an angle that it has not met in training.",
        trained);
  }
  std::string before;
  if (slow_before.empty()) before = "; without the scaling every pair would";
  if (!slow_before.empty() && slow_before != slow) {
    before = fmt::format("; without the scaling these would be {}", ranges(slow_before));
  }
  const bool one = slow.size() == 1;
  return fmt::format(
      "{} never {} a turn within {} positions, the trained context{}. Beyond it they would meet "
      "angles they have never met in training; those are the pairs that scaling must take care of.",
      name_pairs(slow, waves.size()), one ? "completes" : "complete", trained, before);
}

}  // namespace

bool PairWave::stands_still() const noexcept {
  // GGUF stops a pair with a divisor of 1e30. At 1e18 positions a turn no context shows any.
  return length > 1e18;
}

std::vector<PairWave> pair_waves(const ModelRope& rope, const Frequencies& frequencies) {
  Recipe unscaled = rope.recipe;
  unscaled.scaling = Plain{};
  const Frequencies before = make_frequencies(unscaled);
  std::vector<PairWave> waves;
  for (std::int64_t pair = 0; pair < frequencies.pairs; ++pair) {
    waves.push_back({.length = length_of(frequencies, pair),
                     .unscaled = length_of(before, pair),
                     .axis = axis_of(frequencies, pair)});
  }
  return waves;
}

std::vector<std::string> explain_waves(const std::vector<PairWave>& waves,
                                       std::int64_t trained_context) {
  std::vector<std::string> sentences;
  double shortest = std::numeric_limits<double>::infinity();
  double longest = 0.0;
  for (const PairWave& wave : waves) {
    if (wave.stands_still()) continue;
    shortest = std::min(shortest, wave.length);
    longest = std::max(longest, wave.length);
  }
  if (longest > 0.0) {
    sentences.push_back(fmt::format(
        "The fastest pair needs {} positions for a turn and tells neighbours apart; the "
        "slowest needs {} and tells far from near.",
        rough(shortest), rough(longest)));
  }
  const auto still = pairs_where(waves, [](const PairWave& w) { return w.stands_still(); });
  if (!still.empty()) {
    sentences.push_back(
        name_pairs(still, waves.size()) +
        (still.size() == 1 ? " stands still and carries" : " stand still and carry") +
        " no position.");
  }
  if (trained_context > 0 && longest > 0.0) {
    sentences.push_back(explain_turns(waves, trained_context));
  }
  return sentences;
}

}  // namespace rotary::cli
