// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

#include <cmath>
#include <cstddef>
#include <string>

#include "frequencies/axes.h"
#include "frequencies/ladder.h"
#include "rotary/frequencies.h"
#include "support/message.h"

namespace rotary {
namespace internal {

Frequencies blank_matrix(std::int64_t pairs, std::int64_t axes, const Ladder& ladder) {
  const auto size = static_cast<std::size_t>(pairs * axes);
  return {.pairs = pairs,
          .axes = axes,
          .values = std::vector<double>(size, 0.0),
          .scale = static_cast<double>(ladder.scale),
          .softmax_scale = static_cast<double>(ladder.softmax_scale),
          .growth = std::vector<double>(ladder.growth.empty() ? 0 : size, 0.0),
          .growth_origin = ladder.growth_origin};
}

void set_frequency(Frequencies& matrix, std::int64_t pair, std::int64_t axis, const Ladder& ladder,
                   std::size_t index) {
  const auto at = static_cast<std::size_t>(pair * matrix.axes + axis);
  matrix.values[at] = static_cast<double>(ladder.values[index]);
  if (!ladder.growth.empty()) matrix.growth[at] = static_cast<double>(ladder.growth[index]);
}

Frequencies assign_axes(const OneAxis&, const LadderSource& source) {
  const Ladder ladder = source.whole();
  const std::int64_t pairs = source.args.pairs;
  Frequencies matrix = blank_matrix(pairs, 1, ladder);
  for (std::int64_t i = 0; i < pairs; ++i) {
    set_frequency(matrix, i, 0, ladder, static_cast<std::size_t>(i));
  }
  return matrix;
}

// RoPE-Mixed (Heo et al., arXiv 2403.13298, equation 13): angle = fx x + fy y, both learned.
Frequencies assign_axes(const Mixed& map, const LadderSource& source) {
  if (map.axes < 1 || map.axes > kMaxAxes) {
    reject("[make_frequencies] mixed axes must be 1 to ", kMaxAxes, ", got ", map.axes);
  }
  const std::int64_t pairs = source.args.pairs;
  if (map.frequencies.size() != static_cast<std::size_t>(pairs * map.axes)) {
    reject("[make_frequencies] mixed frequencies must be [", pairs, " pairs x ", map.axes,
           " axes], got ", map.frequencies.size(), " values");
  }
  Frequencies matrix{.pairs = pairs, .axes = map.axes, .values = map.frequencies};
  for (double& f : matrix.values) f = static_cast<double>(f * source.gain);
  return matrix;
}

namespace {

void check_recipe(const Recipe& recipe, std::int64_t context) {
  // A head of a million dims means a damaged file.
  constexpr std::int64_t kMaxDims = 1 << 20;
  if (recipe.rotary_dim <= 0 || recipe.rotary_dim > kMaxDims) {
    reject("[make_frequencies] rotary_dim must be 2 to ", kMaxDims, ", got ", recipe.rotary_dim);
  }
  if (recipe.rotary_dim % 2 != 0) {
    reject("[make_frequencies] rotary_dim must be even, got ", recipe.rotary_dim);
  }
  if (recipe.ladder_dim < 0 || recipe.ladder_dim > kMaxDims) {
    reject("[make_frequencies] ladder_dim must be 0 to ", kMaxDims, ", got ", recipe.ladder_dim);
  }
  if (context < 0) reject("[make_frequencies] context must not be negative, got ", context);
  const bool mixed = std::holds_alternative<Mixed>(recipe.axes);
  if (!mixed) require_positive("theta", recipe.theta);
  if (mixed && recipe.wavelengths == Wavelengths::kWhole) {
    reject("[make_frequencies] mixed axes have no wavelengths to round");
  }
  if (!std::isfinite(recipe.gain) || recipe.gain == 0.0) {
    reject("[make_frequencies] gain must be finite and not zero, got ", recipe.gain);
  }
}

void check_result(const Frequencies& matrix) {
  for (std::int64_t pair = 0; pair < matrix.pairs; ++pair) {
    for (std::int64_t axis = 0; axis < matrix.axes; ++axis) {
      if (!std::isfinite(matrix(pair, axis))) {
        reject("[make_frequencies] the recipe gives pair ", pair,
               " a frequency that is not finite: ", matrix(pair, axis));
      }
    }
  }
  if (!std::isfinite(matrix.scale) || matrix.scale <= 0.0) {
    reject("[make_frequencies] the scale on cos and sin must be positive and finite, got ",
           matrix.scale);
  }
  if (!std::isfinite(matrix.softmax_scale) || matrix.softmax_scale <= 0.0) {
    reject("[make_frequencies] softmax_scale must be positive and finite, got ",
           matrix.softmax_scale);
  }
}

}  // namespace
}  // namespace internal

Frequencies make_frequencies(const Recipe& recipe, std::int64_t context) {
  internal::check_recipe(recipe, context);
  const double sign = recipe.direction == RotationDirection::kBackward ? -1.0 : 1.0;
  const internal::LadderSource source{
      .scaling = recipe.scaling,
      .args = {.dim = recipe.ladder_dim != 0 ? recipe.ladder_dim : recipe.rotary_dim,
               .pairs = recipe.rotary_dim / 2,
               .theta = recipe.theta,
               .context = context},
      .gain = sign * recipe.gain,
      .wavelengths = recipe.wavelengths};
  Frequencies matrix = std::visit(
      [&source](const auto& map) { return internal::assign_axes(map, source); }, recipe.axes);
  for (double& f : matrix.values) f += 0.0;  // no negative zeros
  internal::check_result(matrix);
  return matrix;
}

bool depends_on_context(const Recipe& recipe) noexcept {
  return std::holds_alternative<DynamicNtk>(recipe.scaling) ||
         std::holds_alternative<LongRope>(recipe.scaling) ||
         std::holds_alternative<YarnWalkthrough>(recipe.scaling);
}

Frequencies with_inverse_growth(Frequencies frequencies) {
  for (double& g : frequencies.growth) g = -g;
  return frequencies;
}

std::string_view name_of(const Scaling& scaling) noexcept {
  static constexpr std::string_view kNames[] = {
      "default",    "linear",           "ntk",      "ntk_alpha", "dynamic",      "yarn",
      "yarn_paper", "yarn_walkthrough", "longrope", "llama3",    "proportional", "divisors",
      "learnable",  "receptive_field",  "xpos"};
  static_assert(std::size(kNames) == std::variant_size_v<Scaling>);
  return kNames[scaling.index()];
}

std::int64_t axes_of(const AxisMap& map) noexcept {
  if (const auto* axial = std::get_if<Axial>(&map)) return axial->axes;
  if (const auto* mixed = std::get_if<Mixed>(&map)) return mixed->axes;
  if (const auto* mrope = std::get_if<Mrope>(&map)) {
    return static_cast<std::int64_t>(mrope->sections.size());
  }
  return 1;
}

}  // namespace rotary
