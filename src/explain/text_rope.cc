// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

#include "explain/text_rope.h"

#include <fmt/core.h>

#include <stdexcept>
#include <variant>

namespace rotary::explain {

ModelRope text_rope(ModelRope rope, const std::string& verb) {
  if (std::holds_alternative<Mrope>(rope.recipe.axes)) {
    rope.recipe.axes = OneAxis{};
    rope.axes = {"t"};
  }
  if (!std::holds_alternative<OneAxis>(rope.recipe.axes)) {
    throw std::invalid_argument(fmt::format("[{}] rope '{}' has {} axes; one is needed", verb,
                                            rope.name, axes_of(rope.recipe.axes)));
  }
  return rope;
}

}  // namespace rotary::explain
