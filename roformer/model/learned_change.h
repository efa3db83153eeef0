// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// How far learned frequencies are from where they began.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "roformer/model/model.h"

namespace rotary::roformer {

/// One layer's frequencies: as the rope has them, and as each head (or all heads) has learned them.
struct LearnedLayer {
  std::int64_t axes = 1;
  std::vector<double> base{};                  // [pairs * axes]
  std::vector<std::vector<double>> learned{};  // for each head, or one: [pairs * axes]

  std::size_t pairs() const noexcept { return base.size() / static_cast<std::size_t>(axes); }
};

/// The layers that learn them; empty with rope_learn "none".
std::vector<LearnedLayer> learned_layers(const RoFormerImpl& model);

/// Of one pair of a head: |f - f0| / |f0| over the axes; 0 where f0 is 0.
double relative_change(const LearnedLayer& layer, std::size_t head, std::size_t pair);
/// |f| / |f0| - 1, the mean over heads; 0 where f0 is 0.
double mean_ratio(const LearnedLayer& layer, std::size_t pair);

/// Mean and maximum of relative_change() over pairs and heads, and where the maximum is.
struct LayerChange {
  double mean = 0.0;
  double max = 0.0;
  std::size_t pair = 0;
  std::size_t head = 0;
};
LayerChange change_of(const LearnedLayer& layer);

}  // namespace rotary::roformer
