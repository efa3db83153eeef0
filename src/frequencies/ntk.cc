// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// The NTK family: a change of base that lowers the low frequencies and keeps the high ones.
//
// Ntk, with k = factor (Su, "Transformer upgrade road 11", kexue.fm/archives/9706):
//   plain     f_i = (theta * k)^(-2i/d) / k^(2/d)
//   mixed_b   f_i / exp(a * (i+1)^b),  a = ln k / (d/2)^b
// NtkAlpha (bloc97's NTK-aware base):
//   theta' = theta * alpha^(d/(d-2))
// DynamicNtk (emozilla; transformers' "dynamic"), n = positions in use, L = original context:
//   theta' = theta * (factor * n/L - (factor - 1))^(d/(d-2))  for n > L
//   theta' = theta, or theta * alpha^(d/(d-2)) where alpha is given (Hunyuan), for n <= L

#include <algorithm>
#include <cmath>

#include "frequencies/ladder.h"

namespace rotary::internal {

Ladder make_ladder(const Ntk& recipe, const LadderArgs& args) {
  require_positive("ntk factor", recipe.factor);
  const auto d = static_cast<long double>(args.dim);
  const long double k = recipe.factor;
  if (!recipe.mixed_b) {
    Ladder ladder{.values = plain_frequencies(args.with_theta(args.theta * k))};
    for (long double& f : ladder.values) f /= std::pow(k, 2.0L / d);
    return ladder;
  }
  require_positive("ntk mixed_b", *recipe.mixed_b);
  const long double b = *recipe.mixed_b;
  const long double a = std::log(k) / std::pow(d / 2.0L, b);
  Ladder ladder{.values = plain_frequencies(args)};
  for (std::size_t i = 0; i < ladder.values.size(); ++i) {
    ladder.values[i] /= std::exp(a * std::pow(static_cast<long double>(i + 1), b));
  }
  return ladder;
}

Ladder make_ladder(const NtkAlpha& recipe, const LadderArgs& args) {
  require_positive("ntk alpha", recipe.alpha);
  return {.values = plain_frequencies(args.with_theta(ntk_theta(args, recipe.alpha)))};
}

Ladder make_ladder(const DynamicNtk& recipe, const LadderArgs& args) {
  require_positive("dynamic factor", recipe.factor);
  require_positive("dynamic original_context", recipe.original_context);
  if (recipe.alpha && args.context <= recipe.original_context) {
    return make_ladder(NtkAlpha{.alpha = *recipe.alpha}, args);
  }
  const auto trained = static_cast<long double>(recipe.original_context);
  const long double in_use = std::max(static_cast<long double>(args.context), trained);
  const long double k = recipe.factor;
  const long double gain = k * in_use / trained - (k - 1.0L);
  return {.values = plain_frequencies(args.with_theta(ntk_theta(args, gain)))};
}

}  // namespace rotary::internal
