// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// Which layers of a model use a rope, and what differs from layer to layer.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "model/lookup.h"
#include "rotary/model.h"

namespace rotary::internal {

/// Numbers of the layers of that type that rotate; empty where the config does not tell them apart.
std::vector<std::int64_t> rotating_layers(const Lookup& lookup, const std::string& layer_type);

/// The head's width in layers of that type: per_layer_config and global_head_dim before the rest.
std::int64_t layer_head_dim(const Lookup& lookup, const std::string& layer_type,
                            std::vector<std::string>& assumed);

/// The value itself, or of a list with one entry a layer the one of the first layer of that type.
const Json& of_layer_type(const Lookup& lookup, const Found& found, const std::string& layer_type);

/// Appends the rope, or one rope for each theta of layer_rope_theta (0: no rotation). The one with
/// the config's own rope_theta keeps the name; the others are called "theta_500000".
void split_by_theta(const Lookup& lookup, ModelRope rope, std::vector<ModelRope>& ropes);

}  // namespace rotary::internal
