// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// Every scaling on every axis map, for tests that must hold for all of them.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "rotary/frequencies.h"

namespace rotary {

/// Every scaling with an effect: those that depend on the context differ from the default beyond
/// 64.
inline std::vector<Scaling> every_scaling(std::int64_t pairs) {
  const auto n = static_cast<std::size_t>(pairs);
  std::vector<double> divisor(n);
  std::vector<double> gain(n);
  for (std::size_t i = 0; i < n; ++i) {
    divisor[i] = 1.0 + 0.3 * static_cast<double>(i);
    gain[i] = 0.2 - 0.1 * static_cast<double>(i);
  }
  const std::vector<double> gain_of_two(n, 2.0);
  return {
      Plain{},
      Linear{.factor = 4},
      Ntk{.factor = 4},
      Ntk{.factor = 4, .mixed_b = 0.6},
      NtkAlpha{.alpha = 8},
      DynamicNtk{.factor = 2, .original_context = 64},
      DynamicNtk{.factor = 1, .original_context = 8192, .alpha = 50},
      Yarn{.factor = 4, .original_context = 64},
      YarnPaper{.factor = 4, .original_context = 64},
      YarnWalkthrough{.factor = 4, .original_context = 64},
      LongRope{
          .short_factor = gain_of_two, .long_factor = divisor, .original_context = 64, .factor = 4},
      Llama3{.factor = 8, .original_context = 64},
      Proportional{.fraction = 0.5},
      Divisors{divisor},
      Learnable{gain},
      ReceptiveField{.alpha = 0.3, .rho = 0.5},
      Xpos{},
  };
}

struct NamedFrequencies {
  std::string name;
  Frequencies frequencies;
};

/// All of the above on one to four axes, 12 pairs each.
inline std::vector<NamedFrequencies> every_recipe() {
  constexpr std::int64_t kDim = 24;
  struct Map {
    std::string name;
    AxisMap map;
    std::int64_t ladder_pairs;  // of the ladders of the map
  };
  constexpr auto kAlternating = AxialOrder::kAlternating;
  constexpr auto kStrided = AxialLadder::kStrided;
  const std::vector<Map> maps = {
      {"one axis", OneAxis{}, 12},
      {"axial 2", Axial{}, 6},
      {"axial 2 alternating", Axial{.order = kAlternating}, 6},
      {"axial 2 strided", Axial{.ladder = kStrided}, 12},
      {"axial 3", Axial{.axes = 3, .axis_order = {2, 0, 1}}, 4},
      {"axial 4", Axial{.axes = 4}, 3},
      {"mrope chunked", Mrope{{4, 5, 3}}, 12},
      {"mrope interleaved", Mrope{{4, 5, 3}, MropeOrder::kInterleaved}, 12},
      {"mrope round robin", Mrope{{4, 5, 3}, MropeOrder::kRoundRobin}, 12},
      {"mrope spatial first", Mrope{{2, 5, 5}, MropeOrder::kSpatialFirst}, 12},
      {"mrope spatial blocks", Mrope{{2, 5, 5}, MropeOrder::kSpatialBlocks}, 12},
      {"mrope 4", Mrope{{3, 3, 3, 3}}, 12},
  };
  std::vector<NamedFrequencies> result;
  for (const Map& map : maps) {
    for (const Scaling& scaling : every_scaling(map.ladder_pairs)) {
      result.push_back(
          {std::string(name_of(scaling)) + ", " + map.name,
           make_frequencies({.rotary_dim = kDim, .theta = 1e4, .scaling = scaling, .axes = map.map},
                            4096)});
    }
  }
  for (const std::int64_t axes : {1, 2, 3, 4}) {
    Mixed mixed{.axes = axes, .frequencies = {}};
    for (std::int64_t i = 0; i < axes * kDim / 2; ++i) {
      mixed.frequencies.push_back(0.9 - 0.17 * static_cast<double>(i % 11));
    }
    result.push_back(
        {"mixed " + std::to_string(axes), make_frequencies({.rotary_dim = kDim, .axes = mixed})});
  }
  result.push_back(
      {"default, backward, gain", make_frequencies({.rotary_dim = kDim,
                                                    .theta = 100,
                                                    .direction = RotationDirection::kBackward,
                                                    .gain = 6.283185307179586})});
  return result;
}

}  // namespace rotary
