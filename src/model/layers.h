// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// Layers: which ones use a rope, and per-layer values.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "model/lookup.h"
#include "rotary/model.h"

namespace rotary::internal {

/// Indices of the layers of that type that use a rope; empty if the config does not list layers.
std::vector<std::int64_t> rotating_layers(const Lookup& lookup, const std::string& layer_type);

/// head_dim of the layers of that type: per_layer_config, then global_head_dim, then the rest.
std::int64_t layer_head_dim(const Lookup& lookup, const std::string& layer_type,
                            std::vector<std::string>& assumed);

/// The value; of a list with one entry per layer, that of the first layer of the type.
const Json& of_layer_type(const Lookup& lookup, const Found& found, const std::string& layer_type);

/// Appends the rope, or one rope for each kind of layer. Per distinct theta of layer_rope_theta (0:
/// no rope), the one with the config's rope_theta keeps its name; others are named like
/// "theta_500000". With rope_scaling_layers, the layers that it does not list have an "unscaled"
/// rope of the same theta (Molmo 2).
void split_by_layers(const Lookup& lookup, ModelRope rope, std::vector<ModelRope>& ropes);

}  // namespace rotary::internal
