// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// Proportional rotation (Gemma 4; transformers' "proportional"), d = the whole head:
//   n = floor(fraction * d / 2);  f_i = theta^(-2i/d) / factor for i < n, else 0
// Pairs with frequency 0 stay in the layout, so halves are d/2 apart, not n.

#include <cmath>

#include "frequencies/ladder.h"
#include "support/message.h"

namespace rotary::internal {

Ladder make_ladder(const Proportional& recipe, const LadderArgs& args) {
  require_positive("proportional factor", recipe.factor);
  if (!(recipe.fraction >= 0.0 && recipe.fraction <= 1.0)) {
    reject("[make_frequencies] proportional fraction must be in [0, 1], got ", recipe.fraction);
  }
  Ladder ladder{.values = plain_frequencies(args)};
  const auto rotated =
      static_cast<std::size_t>(std::floor(recipe.fraction * static_cast<double>(args.dim) / 2.0));
  for (std::size_t i = 0; i < ladder.values.size(); ++i) {
    ladder.values[i] = i < rotated ? ladder.values[i] / recipe.factor : 0.0L;
  }
  return ladder;
}

}  // namespace rotary::internal
