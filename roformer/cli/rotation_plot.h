// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// How far learned frequencies are from where they began.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace rotary::roformer::cli {

/// One layer's frequencies: as the rope has them, and as each head (or all heads) has learned them.
struct LearnedLayer {
  std::int64_t axes = 1;
  std::vector<double> base{};                  // [pairs * axes]
  std::vector<std::vector<double>> learned{};  // for each head, or one: [pairs * axes]
};

/// Of one pair of a head: |f - f0| / |f0| over the axes; 0 where f0 is 0.
double relative_change(const LearnedLayer& layer, std::size_t head, std::size_t pair);
/// |f| / |f0| - 1, the mean over heads; 0 where f0 is 0.
double mean_ratio(const LearnedLayer& layer, std::size_t pair);

/// An SVG with a line for each layer: the ratio of learned and first frequency, by pair.
std::string draw_rotation(const std::vector<LearnedLayer>& layers, std::string_view title);

}  // namespace rotary::roformer::cli
