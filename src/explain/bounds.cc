// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

#include "explain/bounds.h"

#include <fmt/core.h>

#include <stdexcept>
#include <variant>

#include "explain/text_rope.h"

namespace rotary::explain {

Bounds compute_bounds(const ModelRope& rope, const Frequencies& frequencies, std::int64_t context,
                      SmallestBase search) {
  constexpr std::int64_t kMaxContext = 1 << 24;
  if (context < 1 || context > kMaxContext) {
    throw std::invalid_argument(
        fmt::format("[bounds] context must be 1 to {}, got {}", kMaxContext, context));
  }
  Bounds bounds{.rope = rope, .context = context};
  Frequencies f = frequencies;
  if (std::holds_alternative<Mrope>(rope.recipe.axes)) {
    f = text_frequencies(rope, frequencies, "bounds");
    bounds.rope = text_rope(rope, "bounds");
  }
  bounds.trained = rope.context.trained > 0 ? rope.context.trained : context;
  bounds.critical_dim = critical_dim(f, bounds.trained);
  bounds.turns = turns(f, context);
  if (f.axes != 1 || !f.growth.empty()) return bounds;
  bounds.minimum = smallest_cosine_sum(f, context);
  bounds.negative = negative_distance(f, context);
  if (search == SmallestBase::kYes && f.pairs > 1) {
    bounds.smallest = smallest_base(bounds.rope.recipe, context);
  }
  return bounds;
}

Json bounds_json(const Bounds& b) {
  Json json = {{"rope", b.rope.name},
               {"theta", b.rope.recipe.theta},
               {"rotary_dim", b.rope.recipe.rotary_dim},
               {"context", b.context},
               {"trained_context", b.trained},
               {"critical_dim", b.critical_dim},
               {"turns", b.turns},
               {"cosine_sum", nullptr},
               {"smallest_base", nullptr}};
  if (b.minimum) {
    json["cosine_sum"] = {{"smallest", b.minimum->value},
                          {"error", b.minimum->error},
                          {"distance", b.minimum->distance},
                          {"first_negative", b.negative ? Json(*b.negative) : Json(nullptr)}};
  }
  if (b.smallest) {
    json["smallest_base"] = {{"base", b.smallest->base},
                             {"every_base_fails_up_to", b.smallest->lower},
                             {"fails_at_distance", b.smallest->distance},
                             {"proof", b.smallest->interval_proof ? "interval" : "grid"},
                             {"undecided", b.smallest->undecided}};
  }
  return json;
}

}  // namespace rotary::explain
