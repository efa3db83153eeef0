// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// YaRN as in its paper (Peng et al., arXiv 2309.00071, equations 19 to 22), s = factor,
// r_i = L f_i / (2 pi) the rotations of pair i in the original context L:
//   gamma_i = clamp((r_i - alpha) / (beta - alpha), 0, 1)
//   f'_i = (1 - gamma_i) f_i / s + gamma_i f_i
//   scale = 0.1 ln(s) + 1
// Implementations ramp over pair numbers instead (see yarn.cc), which differs by up to a factor of
// 3 in the middle pairs.

#include <algorithm>
#include <cmath>

#include "frequencies/ladder.h"
#include "support/message.h"

namespace rotary::internal {

Ladder make_ladder(const YarnPaper& recipe, const LadderArgs& args) {
  require_positive("yarn factor", recipe.factor);
  require_positive("yarn original_context", recipe.original_context);
  if (!(recipe.beta > recipe.alpha)) {
    reject("[make_frequencies] yarn beta must exceed alpha (", recipe.alpha, "), got ",
           recipe.beta);
  }
  const auto length = static_cast<long double>(recipe.original_context);
  const long double alpha = recipe.alpha;
  const long double beta = recipe.beta;
  const long double s = recipe.factor;
  Ladder ladder{.values = plain_frequencies(args)};
  for (long double& f : ladder.values) {
    const long double rotations = length * f / (2.0L * kPi);
    const long double gamma = std::clamp((rotations - alpha) / (beta - alpha), 0.0L, 1.0L);
    f = (1.0L - gamma) * f / s + gamma * f;
  }
  ladder.scale = s <= 1.0L ? 1.0L : 0.1L * std::log(s) + 1.0L;
  return ladder;
}

}  // namespace rotary::internal
