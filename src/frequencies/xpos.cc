// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// xPos (Sun et al., "A length-extrapolatable transformer", arXiv 2212.10554, section 3.2):
//   zeta_i = (2i/d + gamma) / (1 + gamma)
//   query at t: times zeta_i^((t - c)/scale_base) e^(i t f_i);  key: the inverse power
// In logarithms: growth_i = ln(zeta_i) / scale_base per position past c.

#include <cmath>

#include "frequencies/ladder.h"
#include "support/message.h"

namespace rotary::internal {

Ladder make_ladder(const Xpos& recipe, const LadderArgs& args) {
  require_positive("xpos scale_base", recipe.scale_base);
  require_positive("xpos gamma", recipe.gamma);
  if (!std::isfinite(recipe.origin)) {
    reject("[make_frequencies] xpos origin must be finite, got ", recipe.origin);
  }
  Ladder ladder{.values = plain_frequencies(args), .growth_origin = recipe.origin};
  const auto d = static_cast<long double>(args.dim);
  const long double gamma = recipe.gamma;
  ladder.growth.resize(ladder.values.size());
  for (std::size_t i = 0; i < ladder.growth.size(); ++i) {
    const long double zeta = (2.0L * static_cast<long double>(i) / d + gamma) / (1.0L + gamma);
    ladder.growth[i] = std::log(zeta) / recipe.scale_base;
  }
  return ladder;
}

}  // namespace rotary::internal
