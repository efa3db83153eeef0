// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// Frequencies adjusted per pair:
//   Learnable   f_i * exp(a_i), a_i trained from 0
//   Divisors    f_i / e_i, as ggml applies the tensor rope_freqs of a GGUF file

#include <cmath>

#include "frequencies/ladder.h"

namespace rotary::internal {

Ladder make_ladder(const Learnable& recipe, const LadderArgs& args) {
  require_size("learnable log_gain", recipe.log_gain.size(), args.pairs);
  Ladder ladder{.values = plain_frequencies(args)};
  for (std::size_t i = 0; i < ladder.values.size(); ++i) {
    ladder.values[i] *= std::exp(static_cast<long double>(recipe.log_gain[i]));
  }
  return ladder;
}

Ladder make_ladder(const Divisors& recipe, const LadderArgs& args) {
  require_size("divisors divisor", recipe.divisor.size(), args.pairs);
  Ladder ladder{.values = plain_frequencies(args)};
  for (std::size_t i = 0; i < ladder.values.size(); ++i) {
    require_positive("divisors divisor", recipe.divisor[i]);
    ladder.values[i] /= recipe.divisor[i];
  }
  return ladder;
}

}  // namespace rotary::internal
