// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// The "yarn" of a popular walk-through (MiniMind before December 2025). It is not YaRN: there is no
// plateau of untouched fast pairs, the factor jumps at `corr`, and cos and sin are not scaled.
//   corr = first i with 2 pi / f_i > L (d/2 if none)
//   beta_i = slow + (fast - slow) * i / max(d/2 - 1, 1)
//   f'_i = f_i * (beta_i s - beta_i + 1) / (beta_i s)  for i < corr,  else f_i / s
// and only when the positions in use exceed L. Its prose describes another ramp, over pair numbers
// between those that make `fast` and `slow` rotations in L:
//   dim(r) = d ln(L / (2 pi r)) / (2 ln theta),  low = max(floor(dim(fast)), 0),
//   high = min(ceil(dim(slow)), d/2 - 1),
//   gamma_i = clamp((i - low) / max(high - low, 0.001), 0, 1)
//   f'_i = f_i ((1 - gamma_i) + gamma_i / s)
// which is YaRN's, clamped at the last pair.

#include <algorithm>
#include <cmath>

#include "frequencies/ladder.h"
#include "support/message.h"

namespace rotary::internal {
namespace {

void apply_ramp_of_prose(const YarnWalkthrough& recipe, const LadderArgs& args,
                         std::vector<long double>& values) {
  if (args.theta == 1.0L) reject("[make_frequencies] yarn_walkthrough needs a theta other than 1");
  const auto length = static_cast<long double>(recipe.original_context);
  const auto d = static_cast<long double>(args.dim);
  const auto correction_dim = [&](long double rotations) {
    return d * std::log(length / (2.0L * kPi * rotations)) / (2.0L * std::log(args.theta));
  };
  const long double low = std::max(std::floor(correction_dim(recipe.beta_fast)), 0.0L);
  const long double high = std::min(std::ceil(correction_dim(recipe.beta_slow)),
                                    static_cast<long double>(args.pairs - 1));
  for (std::size_t i = 0; i < values.size(); ++i) {
    const long double gamma =
        std::clamp((static_cast<long double>(i) - low) / std::max(high - low, 0.001L), 0.0L, 1.0L);
    values[i] *= (1.0L - gamma) + gamma / recipe.factor;
  }
}

}  // namespace

Ladder make_ladder(const YarnWalkthrough& recipe, const LadderArgs& args) {
  require_positive("yarn_walkthrough factor", recipe.factor);
  require_positive("yarn_walkthrough original_context", recipe.original_context);
  require_positive("yarn_walkthrough beta_fast", recipe.beta_fast);
  require_positive("yarn_walkthrough beta_slow", recipe.beta_slow);
  Ladder ladder{.values = plain_frequencies(args)};
  if (args.context <= recipe.original_context) return ladder;
  if (recipe.ramp == WalkthroughRamp::kProse) {
    apply_ramp_of_prose(recipe, args, ladder.values);
    return ladder;
  }

  const auto length = static_cast<long double>(recipe.original_context);
  const long double s = recipe.factor;
  const long double slow = recipe.beta_slow;
  const long double span = static_cast<long double>(recipe.beta_fast) - slow;
  const auto corr = std::find_if(ladder.values.begin(), ladder.values.end(),
                                 [length](long double f) { return 2.0L * kPi / f > length; }) -
                    ladder.values.begin();
  const auto last = static_cast<long double>(std::max<std::int64_t>(args.pairs - 1, 1));
  for (std::size_t i = 0; i < ladder.values.size(); ++i) {
    const long double beta = slow + span * static_cast<long double>(i) / last;
    ladder.values[i] *=
        static_cast<std::ptrdiff_t>(i) < corr ? (beta * s - beta + 1.0L) / (beta * s) : 1.0L / s;
  }
  return ladder;
}

}  // namespace rotary::internal
