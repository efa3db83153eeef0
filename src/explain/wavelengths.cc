// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

#include "explain/wavelengths.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <numbers>

#include "explain/format.h"

namespace rotary::explain {
namespace {

double wavelength_of(const Frequencies& frequencies, std::int64_t pair) {
  double squares = 0.0;
  for (std::int64_t axis = 0; axis < frequencies.axes; ++axis) {
    squares += frequencies(pair, axis) * frequencies(pair, axis);
  }
  return 2.0 * std::numbers::pi / std::sqrt(squares);  // infinite at frequency 0
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
std::vector<std::int64_t> pairs_where(const std::vector<PairWavelength>& pairs, Test test) {
  std::vector<std::int64_t> found;
  for (std::size_t i = 0; i < pairs.size(); ++i) {
    if (test(pairs[i])) found.push_back(static_cast<std::int64_t>(i));
  }
  return found;
}

/// "Pairs 35-63 (29 of 64)", "Pair 3 (1 of 4)".
std::string name_pairs(const std::vector<std::int64_t>& pairs, std::size_t total) {
  return fmt::format("{} {} ({} of {})", pairs.size() == 1 ? "Pair" : "Pairs", format_ranges(pairs),
                     pairs.size(), total);
}

std::string explain_incomplete_turns(const std::vector<PairWavelength>& pairs,
                                     std::int64_t trained) {
  const auto limit = static_cast<double>(trained);
  const auto slow = pairs_where(
      pairs, [limit](const PairWavelength& w) { return w.rotates() && w.wavelength > limit; });
  const auto slow_before = pairs_where(
      pairs, [limit](const PairWavelength& w) { return w.rotates() && w.unscaled > limit; });
  if (slow.empty()) {
    return fmt::format(
        "Every rotated pair completes at least one turn within the trained context of {} "
        "positions, so longer contexts bring no angles that were not seen in training.",
        trained);
  }
  std::string before;
  if (slow_before.empty()) before = " (without scaling every pair would)";
  if (!slow_before.empty() && slow_before != slow) {
    before = fmt::format(" (without scaling: {})", format_ranges(slow_before));
  }
  return fmt::format(
      "{} {} not complete a turn within the trained context of {} positions{}. In longer contexts "
      "they reach angles that were not seen in training; context extension must scale them.",
      name_pairs(slow, pairs.size()), slow.size() == 1 ? "does" : "do", trained, before);
}

}  // namespace

bool PairWavelength::rotates() const noexcept {
  // GGUF files disable a pair with a divisor of 1e30.
  return !(wavelength > 1e18);
}

std::vector<PairWavelength> pair_wavelengths(const ModelRope& rope,
                                             const Frequencies& frequencies) {
  Recipe unscaled = rope.recipe;
  unscaled.scaling = Plain{};
  const Frequencies before = make_frequencies(unscaled);
  std::vector<PairWavelength> pairs;
  for (std::int64_t pair = 0; pair < frequencies.pairs; ++pair) {
    pairs.push_back({.wavelength = wavelength_of(frequencies, pair),
                     .unscaled = wavelength_of(before, pair),
                     .axis = axis_of(frequencies, pair)});
  }
  return pairs;
}

std::vector<std::string> explain_wavelengths(const std::vector<PairWavelength>& pairs,
                                             std::int64_t trained_context) {
  std::vector<std::string> sentences;
  double shortest = std::numeric_limits<double>::infinity();
  double longest = 0.0;
  for (const PairWavelength& pair : pairs) {
    if (!pair.rotates()) continue;
    shortest = std::min(shortest, pair.wavelength);
    longest = std::max(longest, pair.wavelength);
  }
  if (longest > 0.0) {
    sentences.push_back(
        fmt::format("Wavelengths range from {} positions (nearby tokens) to {} (distant tokens).",
                    format_approximate(shortest), format_approximate(longest)));
  }
  const auto constant = pairs_where(pairs, [](const PairWavelength& w) { return !w.rotates(); });
  if (!constant.empty()) {
    sentences.push_back(
        name_pairs(constant, pairs.size()) +
        (constant.size() == 1 ? " is not rotated and carries" : " are not rotated and carry") +
        " no position.");
  }
  if (trained_context > 0 && longest > 0.0) {
    sentences.push_back(explain_incomplete_turns(pairs, trained_context));
  }
  return sentences;
}

}  // namespace rotary::explain
