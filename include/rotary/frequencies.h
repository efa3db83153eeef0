// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

/// The frequencies of the pairs: the one matrix that defines every rotary embedding.
///
///   rotary::Frequencies f = rotary::make_frequencies({
///       .rotary_dim = 128, .theta = 1e6,
///       .scaling = rotary::Yarn{.factor = 4, .original_context = 32768}});
///   f(0, 0);   // radians of pair 0 per position on axis 0
///   f.scale;   // YaRN's factor on cos and sin: 1.1386...
///
/// Pair p at position (x_0, x_1, ...) is rotated by the angle sum_a f(p, a) * x_a. A row has one
/// non-zero entry for text, axial images and M-RoPE, several for RoPE-Mixed, and none for a pair
/// that is not rotated. Frequencies may be negative.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "rotary/recipe.h"

namespace rotary {

/// The matrix [pairs x axes], with its two factors. These doubles *define* a rotation: errors are
/// stated with respect to them.
struct Frequencies {
  std::int64_t pairs = 0;
  std::int64_t axes = 1;
  /// [pairs x axes], row-major, radians per position. May be filled by hand.
  std::vector<double> values{};
  /// Multiplies cos and sin, hence scores by its square (YaRN's attention_factor).
  double scale = 1.0;
  /// Factor on attention scores besides 1/sqrt(d) (DeepSeek's mscale_all_dim). The caller applies
  /// it; the rotation does not.
  double softmax_scale = 1.0;
  /// Empty, or [pairs x axes] (xPos): |z| is multiplied by exp(growth) per position past
  /// `growth_origin`. The origin does not affect the phase.
  std::vector<double> growth{};
  double growth_origin = 0.0;

  double operator()(std::int64_t pair, std::int64_t axis = 0) const {
    return values[static_cast<std::size_t>(pair * axes + axis)];
  }
  std::int64_t rotary_dim() const noexcept { return 2 * pairs; }
};

/// Evaluates a recipe. `context` is the number of positions in use (largest position + 1) for
/// recipes that depend on it; 0 means the trained length. All arithmetic is in long double and
/// rounded once. Throws std::invalid_argument for an odd or non-positive rotary_dim, a theta that
/// is not positive and finite, factors of the wrong length or out of range, sections that do not
/// add up, and for any result that is not finite.
Frequencies make_frequencies(const Recipe& recipe, std::int64_t context = 0);

/// True when the recipe gives different frequencies for different `context` (dynamic NTK, LongRoPE,
/// the walk-through's YaRN).
bool depends_on_context(const Recipe& recipe) noexcept;

/// The frequencies of keys where the argument holds those of queries: xPos lets queries grow and
/// keys shrink. Returns the argument unchanged where there is no growth.
Frequencies with_inverse_growth(Frequencies frequencies);

}  // namespace rotary
