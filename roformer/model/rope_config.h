// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

/// The rotation that a config describes: which rope each layer has. Needs no PyTorch.
///
/// rope_parameters is read by rotary::Model, as `rotary inspect` reads it, so that every rope_type
/// means the same in both.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "roformer/model/config.h"
#include "rotary/model.h"

namespace rotary::roformer {

/// Whether position_encoding names a rotation: "rope" or "xpos", alone or with others.
bool rotates(const Config& config);

/// The ropes of a model, and the layers that use them.
struct LayerRopes {
  /// At least one, even if no layer uses it.
  std::vector<ModelRope> ropes{};
  /// Index of the rope of each layer; none for a layer without rotation.
  std::vector<std::optional<std::size_t>> of_layer{};

  /// Whether frequencies depend on the length of a text (dynamic, longrope, yarn_walkthrough).
  bool depend_on_context() const;
};
/// Throws std::invalid_argument that names the key. No ropes if the config does not rotate.
LayerRopes layer_ropes(const Config& config);

/// Throws std::invalid_argument if the config has no valid rotation.
void check_ropes(const Config& config);

/// Other rope parameters for a trained model, to stretch its context.
struct RopeChange {
  /// The keys of rope_parameters, as a JSON object or as the path of a file with one; empty: those
  /// of the model. The model's rope_theta and partial_rotary_factor stay unless given here, and
  /// original_max_position_embeddings is the model's max_position_embeddings.
  std::string rope{};
  /// The target length: max_position_embeddings, and the context in use of recipes that depend on
  /// it. 0: max_position_embeddings stays, and each text has its own length as context.
  std::int64_t context = 0;

  bool is_empty() const noexcept { return rope.empty() && context == 0; }
};
/// Throws std::invalid_argument that names the flag, IoError for a file.
void apply_rope_change(const RopeChange& change, Config& config);

}  // namespace rotary::roformer
