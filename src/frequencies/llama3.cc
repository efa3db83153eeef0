// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// Llama 3.1 (Meta's reference code; transformers' "llama3"), L = original context,
// r_i = L f_i / (2 pi) the rotations of pair i in it:
//   r_i < low_freq_factor    f_i / factor
//   r_i > high_freq_factor   f_i
//   between                  (1 - s) f_i / factor + s f_i,  s = (r_i - low) / (high - low)
// This is the ramp of the YaRN paper with alpha = low and beta = high, without its temperature.

#include "frequencies/ladder.h"
#include "support/message.h"

namespace rotary::internal {

Ladder make_ladder(const Llama3& recipe, const LadderArgs& args) {
  require_positive("llama3 factor", recipe.factor);
  require_positive("llama3 original_context", recipe.original_context);
  require_positive("llama3 low_freq_factor", recipe.low_freq_factor);
  require_positive("llama3 high_freq_factor", recipe.high_freq_factor);
  if (recipe.high_freq_factor < recipe.low_freq_factor) {
    reject("[make_frequencies] llama3 high_freq_factor must not be below low_freq_factor (",
           recipe.low_freq_factor, "), got ", recipe.high_freq_factor);
  }
  const auto length = static_cast<long double>(recipe.original_context);
  const long double low = recipe.low_freq_factor;
  const long double high = recipe.high_freq_factor;
  Ladder ladder{.values = plain_frequencies(args)};
  for (long double& f : ladder.values) {
    const long double rotations = length * f / (2.0L * kPi);
    if (rotations > high) continue;
    // With low == high there is no ramp: all that is not above is divided.
    const long double s = rotations < low || low == high ? 0.0L : (rotations - low) / (high - low);
    f = (1.0L - s) * f / recipe.factor + s * f;
  }
  return ladder;
}

}  // namespace rotary::internal
