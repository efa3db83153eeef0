// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// Position interpolation: f_i / factor.
// Chen et al., "Extending context window of large language models via positional interpolation",
// arXiv 2306.15595, equation 4.

#include "frequencies/ladder.h"

namespace rotary::internal {

Ladder make_ladder(const Linear& recipe, const LadderArgs& args) {
  require_positive("linear factor", recipe.factor);
  Ladder ladder{.values = plain_frequencies(args)};
  for (long double& f : ladder.values) f /= recipe.factor;
  return ladder;
}

}  // namespace rotary::internal
