// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

#include "frequencies/ladder.h"

#include <cmath>

#include "support/message.h"

namespace rotary::internal {

std::vector<long double> plain_frequencies(const LadderArgs& args) {
  std::vector<long double> values(static_cast<std::size_t>(args.pairs));
  const auto d = static_cast<long double>(args.dim);
  for (std::size_t i = 0; i < values.size(); ++i) {
    values[i] = std::pow(args.theta, -2.0L * static_cast<long double>(i) / d);
  }
  return values;
}

long double ntk_theta(const LadderArgs& args, long double gain) {
  if (args.dim < 4) {
    reject("[make_frequencies] a change of base needs rotary_dim of at least 4, got ", args.dim);
  }
  const auto d = static_cast<long double>(args.dim);
  return args.theta * std::pow(gain, d / (d - 2.0L));
}

Ladder make_ladder(const Plain&, const LadderArgs& args) {
  return {.values = plain_frequencies(args)};
}

Ladder make_ladder(const Scaling& scaling, const LadderArgs& args) {
  return std::visit([&args](const auto& recipe) { return make_ladder(recipe, args); }, scaling);
}

void require_positive(const char* what, double value) {
  if (!(value > 0.0) || !std::isfinite(value)) {
    reject("[make_frequencies] ", what, " must be positive and finite, got ", value);
  }
}

void require_positive(const char* what, std::int64_t value) {
  if (value <= 0) reject("[make_frequencies] ", what, " must be positive, got ", value);
}

void require_size(const char* what, std::size_t size, std::int64_t pairs) {
  if (size != static_cast<std::size_t>(pairs)) {
    reject("[make_frequencies] ", what, " must have one entry a pair (", pairs, "), got ", size);
  }
}

}  // namespace rotary::internal
