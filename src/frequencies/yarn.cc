// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// YaRN as implemented (Peng et al., arXiv 2309.00071; the ramp as in their repository and in
// transformers, over pair numbers instead of rotations).
//
//   corr(r) = d ln(L / (2 pi r)) / (2 ln theta)            the pair that makes r rotations in L
//   low  = max(floor(corr(beta_fast)), 0)                  floor and ceil only if truncate
//   high = min(ceil(corr(beta_slow)), d - 1)               high += 0.001 if equal to low
//   ramp_i = clamp((i - low) / (high - low), 0, 1)
//   f'_i = f_i / factor * ramp_i + f_i * (1 - ramp_i)
//   mscale(m) = 0.1 m ln(factor) + 1 for factor > 1, else 1
//   scale = attention_factor, or mscale(mscale)/mscale(mscale_all_dim), or mscale(1)
//
// The bound d - 1 (not d/2 - 1) is that of every implementation; it matters only where
// corr(beta_slow) exceeds d/2. DeepSeek's models also multiply attention scores by
// mscale(mscale_all_dim)^2.

#include <algorithm>
#include <cmath>

#include "frequencies/ladder.h"
#include "support/message.h"

namespace rotary::internal {
namespace {

long double mscale(long double factor, long double m) {
  return factor <= 1.0L ? 1.0L : 0.1L * m * std::log(factor) + 1.0L;
}

long double attention_scale(const Yarn& recipe) {
  if (recipe.attention_factor) return *recipe.attention_factor;
  const double all_dim = recipe.mscale_all_dim.value_or(0.0);
  const double m = recipe.mscale.value_or(0.0);
  if (m != 0.0 && all_dim != 0.0) return mscale(recipe.factor, m) / mscale(recipe.factor, all_dim);
  return mscale(recipe.factor, 1.0L);
}

struct Range {
  long double low;
  long double high;
};

Range correction_range(const Yarn& recipe, const LadderArgs& args) {
  const auto d = static_cast<long double>(args.dim);
  const auto length = static_cast<long double>(recipe.original_context);
  const auto corr = [&](long double rotations) {
    return d * std::log(length / (rotations * 2.0L * kPi)) / (2.0L * std::log(args.theta));
  };
  Range range{corr(recipe.beta_fast), corr(recipe.beta_slow)};
  if (recipe.truncate) range = {std::floor(range.low), std::ceil(range.high)};
  range = {std::max(range.low, 0.0L), std::min(range.high, d - 1.0L)};
  if (range.low == range.high) range.high += 0.001L;
  return range;
}

}  // namespace

Ladder make_ladder(const Yarn& recipe, const LadderArgs& args) {
  require_positive("yarn factor", recipe.factor);
  require_positive("yarn original_context", recipe.original_context);
  require_positive("yarn beta_fast", recipe.beta_fast);
  require_positive("yarn beta_slow", recipe.beta_slow);
  if (args.theta == 1.0L) reject("[make_frequencies] yarn needs a theta other than 1");

  Ladder ladder{.values = plain_frequencies(args)};
  const auto [low, high] = correction_range(recipe, args);
  for (std::size_t i = 0; i < ladder.values.size(); ++i) {
    const long double ramp =
        std::clamp((static_cast<long double>(i) - low) / (high - low), 0.0L, 1.0L);
    const long double f = ladder.values[i];
    ladder.values[i] = f / recipe.factor * ramp + f * (1.0L - ramp);
  }
  ladder.scale = attention_scale(recipe);
  if (recipe.softmax_correction == SoftmaxCorrection::kMscaleAllDimSquared &&
      recipe.mscale_all_dim.value_or(0.0) != 0.0) {
    const long double m = mscale(recipe.factor, *recipe.mscale_all_dim);
    ladder.softmax_scale = m * m;
  }
  return ladder;
}

}  // namespace rotary::internal
