// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// Receptive-field variant: f*_i = alpha / 10000^rho + (1 - alpha) f_i.
// With phi = alpha / 10000^rho the score of two tokens n - m = x apart becomes
//   cos(x phi) a'(x) - sin(x phi) b'(x)
// where a' and b' are the real and imaginary part of the score with frequencies (1 - alpha) f_i:
// every pair gets the common frequency phi on top of its own.

#include <cmath>

#include "frequencies/ladder.h"
#include "support/message.h"

namespace rotary::internal {

Ladder make_ladder(const ReceptiveField& recipe, const LadderArgs& args) {
  if (!std::isfinite(recipe.alpha) || !std::isfinite(recipe.rho)) {
    reject("[make_frequencies] receptive_field alpha and rho must be finite, got ", recipe.alpha,
           " and ", recipe.rho);
  }
  const long double alpha = recipe.alpha;
  const long double phi = alpha / std::pow(10000.0L, static_cast<long double>(recipe.rho));
  Ladder ladder{.values = plain_frequencies(args)};
  for (long double& f : ladder.values) f = phi + (1.0L - alpha) * f;
  return ladder;
}

}  // namespace rotary::internal
