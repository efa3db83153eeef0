// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// LongRoPE (Ding et al., arXiv 2402.13753; as in Phi-3 and transformers), L = original context:
//   e = long_factor if positions in use > L, else short_factor
//   f'_i = 1 / (e_i theta^(2i/d))
//   scale = attention_factor, or sqrt(1 + ln(factor) / ln(L)) for factor > 1, else 1
// Phi-MoE gives the scale of each regime explicitly: short_mscale, long_mscale.

#include <cmath>

#include "frequencies/ladder.h"

namespace rotary::internal {

Ladder make_ladder(const LongRope& recipe, const LadderArgs& args) {
  require_positive("longrope original_context", recipe.original_context);
  require_positive("longrope factor", recipe.factor);
  require_size("longrope short_factor", recipe.short_factor.size(), args.pairs);
  require_size("longrope long_factor", recipe.long_factor.size(), args.pairs);
  for (const double e : recipe.short_factor) require_positive("longrope short_factor", e);
  for (const double e : recipe.long_factor) require_positive("longrope long_factor", e);

  const bool is_long = args.context > recipe.original_context;
  const std::vector<double>& divisor = is_long ? recipe.long_factor : recipe.short_factor;
  Ladder ladder{.values = plain_frequencies(args)};
  for (std::size_t i = 0; i < divisor.size(); ++i) {
    ladder.values[i] /= divisor[i];
  }
  const std::optional<double>& given = is_long ? recipe.long_mscale : recipe.short_mscale;
  if (given) {
    ladder.scale = *given;
  } else if (recipe.attention_factor) {
    ladder.scale = *recipe.attention_factor;
  } else if (recipe.factor > 1.0) {
    const auto length = static_cast<long double>(recipe.original_context);
    ladder.scale =
        std::sqrt(1.0L + std::log(static_cast<long double>(recipe.factor)) / std::log(length));
  }
  return ladder;
}

}  // namespace rotary::internal
