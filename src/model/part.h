// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// The ropes of one config object: one, or one per layer type.
#pragma once

#include <vector>

#include "model/lookup.h"
#include "rotary/model.h"

namespace rotary::internal {

/// The most ropes of a model: far more than any has, few enough for a hostile file to cost little.
constexpr std::size_t kMaxRopes = 256;

/// Reads the ropes of the object itself, not of its sub-configs. Names are layer types or
/// "default".
std::vector<ModelRope> read_part(const Lookup& lookup);

}  // namespace rotary::internal
