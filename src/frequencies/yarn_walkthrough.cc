// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// The "yarn" of a popular walk-through (MiniMind before December 2025). It is not YaRN: there is no
// plateau of untouched fast pairs, the factor jumps at `corr`, and cos and sin are not scaled.
//   corr = first i with 2 pi / f_i > L (d/2 if none)
//   beta_i = slow + (fast - slow) * i / max(d/2 - 1, 1)
//   f'_i = f_i * (beta_i s - beta_i + 1) / (beta_i s)  for i < corr,  else f_i / s
// and only when the positions in use exceed L.

#include <algorithm>

#include "frequencies/ladder.h"

namespace rotary::internal {

Ladder make_ladder(const YarnWalkthrough& recipe, const LadderArgs& args) {
  require_positive("yarn_walkthrough factor", recipe.factor);
  require_positive("yarn_walkthrough original_context", recipe.original_context);
  require_positive("yarn_walkthrough beta_fast", recipe.beta_fast);
  require_positive("yarn_walkthrough beta_slow", recipe.beta_slow);
  Ladder ladder{.values = plain_frequencies(args)};
  if (args.context <= recipe.original_context) return ladder;

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
