// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

/// A rope as text: how a rotation travels into PyTorch's operators.
///
///   std::string text = rotary::torch::to_text(rope);
///   auto rotated = rotary::torch::rotate({q, k}, text, {.first = 4096});
///
/// The text is JSON with every number of the rotation in it, exactly (a double and its shortest
/// decimal are the same number). So graphs that hold it can be compiled, exported, saved and sent
/// to other machines, and no cast of a module can touch it. The operators keep the Rope of each
/// text that they have seen.
#pragma once

#include <string>
#include <string_view>

#include "rotary/rope.h"

namespace rotary::torch {

/// Positions of one axis on a rope of several: refused, or the same on all, as text tokens have in
/// M-RoPE.
enum class OneAxisPositions { kRefused, kOnAllAxes };

/// What a text says.
struct RopeText {
  Frequencies frequencies{};
  HeadLayout layout{};
  Precision precision = Precision::kExact;
  OneAxisPositions one_axis = OneAxisPositions::kRefused;
};

/// The keys, those in brackets with their defaults:
///   head_dim, pairing: "half" or "interleaved", [output_pairing: pairing], [rotary_offset: 0],
///   frequencies: numbers [pairs x axes], row-major, or theta and rotary_dim for the plain ladder,
///   [axes: 1], [scale: 1], [softmax_scale: 1], [growth: none], [growth_origin: 0],
///   [precision: "exact" or "reference"], [one_axis: "refused" or "on_all_axes"]
/// Throws std::invalid_argument for other keys, keys that are missing, and values of other types.
RopeText from_text(std::string_view text);

std::string to_text(const RopeText& rope);
std::string to_text(const Rope& rope, OneAxisPositions one_axis = OneAxisPositions::kRefused);

}  // namespace rotary::torch
