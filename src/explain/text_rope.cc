// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

#include "explain/text_rope.h"

#include <fmt/core.h>

#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <variant>
#include <vector>

namespace rotary::explain {
namespace {

[[noreturn]] void reject_axes(const ModelRope& rope, const std::string& verb) {
  throw std::invalid_argument(fmt::format("[{}] rope '{}' has {} axes; one is needed", verb,
                                          rope.name, axes_of(rope.recipe.axes)));
}

/// Sums over the axes, of which M-RoPE has one that is not zero in each row.
std::vector<double> sum_axes(const std::vector<double>& values, std::int64_t axes) {
  std::vector<double> sums(values.size() / static_cast<std::size_t>(axes));
  for (std::size_t i = 0; i < values.size(); ++i) {
    sums[i / static_cast<std::size_t>(axes)] += values[i];
  }
  return sums;
}

}  // namespace

ModelRope text_rope(ModelRope rope, const std::string& verb) {
  if (std::holds_alternative<Mrope>(rope.recipe.axes)) {
    rope.recipe.axes = OneAxis{};
    rope.axes = {"t"};
  }
  if (!std::holds_alternative<OneAxis>(rope.recipe.axes)) reject_axes(rope, verb);
  return rope;
}

Frequencies text_frequencies(const ModelRope& rope, const Frequencies& frequencies,
                             const std::string& verb) {
  if (frequencies.axes == 1) return frequencies;
  if (!std::holds_alternative<Mrope>(rope.recipe.axes)) reject_axes(rope, verb);
  Frequencies text = frequencies;
  text.axes = 1;
  text.values = sum_axes(frequencies.values, frequencies.axes);
  text.growth = sum_axes(frequencies.growth, frequencies.axes);
  return text;
}

}  // namespace rotary::explain
