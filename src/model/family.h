// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// Model families: pairing, axes and defaults that config files do not state. The data are the rows
// of families.inc.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "json/json.h"
#include "rotary/pairing.h"
#include "rotary/recipe.h"

namespace rotary::internal {

/// Properties of one layer type of a family.
struct LayerType {
  /// Key of its theta in configs that are not nested; empty: rope_theta.
  std::string theta_key;
  /// Whether a rope_scaling that is not nested applies to it.
  bool scaled = true;
};

/// When partial_rotary_factor applies.
enum class Partial : std::uint8_t { kNever, kScaledTypes, kAlways };

/// One row of families.inc; the keys are described there.
struct Family {
  std::string model_type;
  /// Why the family is not supported; empty if it is.
  std::string unsupported;
  /// A key of the config and the value that it has in models with a rotation; empty: no condition.
  std::pair<std::string, std::string> condition;
  /// What the rope does not tell about the family; a warning of every rope.
  std::string warns;
  /// False for rows that only list the parts of a composite config.
  bool has_rope = false;
  Pairing pairing = Pairing::kHalf;
  Pairing output_pairing = Pairing::kHalf;
  /// Key that sets `pairing` to half when it is false.
  std::string interleave_key;
  /// A second rope with the same frequencies and half pairing, for the indexer of sparse attention.
  bool has_indexer = false;
  bool trailing = false;
  RotationDirection direction = RotationDirection::kForward;
  std::vector<std::string> axes{"t"};
  AxisMap axis_map = OneAxis{};
  /// Rules for head_dim, tried in order: "key", "key/key", "2*key/key".
  std::vector<std::string> head_dim;
  Partial partial = Partial::kScaledTypes;
  /// Whether the key rotary_dim is read.
  bool rotary_dim_honoured = false;
  /// Whether the dims that equal even shares of the axes leave over are not rotated.
  bool equal_shares = false;
  /// Whether mrope_section makes axes in a family without them.
  bool mrope_honoured = true;
  /// Whether each axis has a slice of the head, paired within itself: a rope for every axis.
  bool axis_slices = false;
  bool softmax_correction = false;
  /// Whether rope type dynamic takes `alpha`.
  bool alpha_honoured = false;
  /// Whether rope type dynamic counts from original_max_position_embeddings where it is given.
  bool dynamic_original_honoured = false;
  /// The scale of cos and sin for yarn without attention_factor.
  std::optional<double> attention_factor;
  double gain = 1.0;
  /// Names of rope types in this family.
  std::map<std::string, std::string> type_aliases;
  /// The only layer type with a rope; empty: all.
  std::string rotating_layers;
  std::map<std::string, LayerType> layers;
  /// Model types of sub-configs, by their key.
  std::map<std::string, std::string> parts;
  /// Defaults of the config class.
  Json defaults = Json::object();
};

/// Null for a model type without a row. `version`: of transformers, for what that version computes
/// where the newest one differs; empty: the newest.
const Family* find_family(std::string_view model_type, std::string_view version = {});

/// For unknown model types: one axis, half pairing, partial_rotary_factor applies, no defaults.
const Family& unknown_family();

/// For unknown model types with multi-head latent attention (qk_rope_head_dim): like DeepSeek-V3.
const Family& unknown_mla_family();

/// The model types that have a row, sorted.
std::vector<std::string> family_names();

}  // namespace rotary::internal
