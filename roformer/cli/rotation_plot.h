// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// A drawing of learned frequencies.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "roformer/model/learned_change.h"

namespace rotary::roformer::cli {

/// An SVG with a line for each layer: the ratio of learned and first frequency, by pair.
std::string draw_rotation(const std::vector<LearnedLayer>& layers, std::string_view title);

}  // namespace rotary::roformer::cli
