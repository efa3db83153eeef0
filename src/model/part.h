// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// The ropes of one config object: one, or one for each layer type.
#pragma once

#include <vector>

#include "model/lookup.h"
#include "rotary/model.h"

namespace rotary::internal {

/// Reads the object's own ropes, not those of its sub-configs; names are layer types or "default".
std::vector<ModelRope> read_part(const Lookup& lookup);

}  // namespace rotary::internal
