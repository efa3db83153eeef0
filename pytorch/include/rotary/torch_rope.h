// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

/// A rope as text, the form in which PyTorch's operators take it.
///
///   std::string text = rotary::torch::to_text(rope);
///   auto rotated = rotary::torch::rotate({q, k}, text, {.first = 4096});
///
/// The text is JSON with all parameters of the rotation, exactly (doubles as their shortest
/// decimals). So graphs that contain it can be compiled, exported, saved and sent to other
/// machines, and no cast of a module can change it. The operators cache the Rope of every text.
#pragma once

#include <string>
#include <string_view>

#include "rotary/rope.h"

namespace rotary::torch {

/// Positions of one axis on a rope of several: refused, or broadcast to all, as for text tokens in
/// M-RoPE.
enum class OneAxisPositions { kRefused, kOnAllAxes };

/// A parsed text.
struct RopeText {
  Frequencies frequencies{};
  HeadLayout layout{};
  Precision precision = Precision::kExact;
  OneAxisPositions one_axis = OneAxisPositions::kRefused;
};

/// The keys; those in brackets are optional, with their defaults:
///   head_dim, pairing: "half" or "interleaved", [output_pairing: pairing], [rotary_offset: 0],
///   frequencies: list [pairs x axes], row-major, or theta and rotary_dim: theta^(-2i/rotary_dim),
///   [axes: 1], [scale: 1], [softmax_scale: 1], [growth: none], [growth_origin: 0],
///   [precision: "exact" or "reference"], [one_axis: "refused" or "on_all_axes"]
/// Throws std::invalid_argument for other keys, keys that are missing, and values of other types.
RopeText from_text(std::string_view text);

std::string to_text(const RopeText& rope);
std::string to_text(const Rope& rope, OneAxisPositions one_axis = OneAxisPositions::kRefused);

}  // namespace rotary::torch
