// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

/// How fast each pair turns: the one matrix that every rotary embedding comes down to.
///
///   rotary::Frequencies f = rotary::make_frequencies({
///       .rotary_dim = 128, .theta = 1e6,
///       .scaling = rotary::Yarn{.factor = 4, .original_context = 32768}});
///   f(0, 0);   // radians that pair 0 turns when axis 0 advances by one
///   f.scale;   // what YaRN multiplies cos and sin by: 1.1386...
///
/// Pair p of a head at position (x_0, x_1, ...) turns by sum_a f(p, a) * x_a. A row with one entry
/// that is not zero: text, axial images, M-RoPE. Two: RoPE-Mixed. None: a pair that stands still.
/// A negative entry turns the other way.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "rotary/recipe.h"

namespace rotary {

/// The matrix [pairs x axes], in double, with the two factors that go with it. These doubles *are*
/// the definition of a rotation: everything downstream is exact with respect to them.
struct Frequencies {
  std::int64_t pairs = 0;
  std::int64_t axes = 1;
  /// [pairs x axes], row-major, radians per unit of position. May be filled by hand.
  std::vector<double> values{};
  /// Multiplies cos and sin, hence scores by its square (YaRN's attention_factor).
  double scale = 1.0;
  /// What attention must multiply its scores by on top of 1/sqrt(d), outside the rotation
  /// (DeepSeek's mscale_all_dim). The rotation itself never applies it.
  double softmax_scale = 1.0;
  /// Empty, or [pairs x axes]: logarithm by which a pair's length grows per unit of position past
  /// `growth_origin` (xPos). The unit of phase is untouched by the origin.
  std::vector<double> growth{};
  double growth_origin = 0.0;

  double operator()(std::int64_t pair, std::int64_t axis = 0) const {
    return values[static_cast<std::size_t>(pair * axes + axis)];
  }
  std::int64_t rotary_dim() const noexcept { return 2 * pairs; }
};

/// Fills the matrix by the recipe. `context` is the number of positions in use (largest
/// position + 1) for the recipes that depend on it; 0 means the length the model was trained for.
/// All arithmetic is in long double and rounded once. Throws std::invalid_argument for an odd or
/// non-positive rotary_dim, a theta that is not positive and finite, factors of the wrong length
/// or out of range, sections that do not add up, and for any result that is not finite.
Frequencies make_frequencies(const Recipe& recipe, std::int64_t context = 0);

/// True when the recipe gives different frequencies for different `context` (dynamic NTK, LongRoPE,
/// the walk-through's YaRN).
bool depends_on_context(const Recipe& recipe) noexcept;

/// The same frequencies for the other side of a score: xPos lets queries grow and keys shrink.
/// Equal to the argument where there is no growth.
Frequencies with_inverse_growth(Frequencies frequencies);

}  // namespace rotary
