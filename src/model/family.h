// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// What is known of a model family beyond what its config files say. Families are rows of
// families.inc; this reads them.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "model/json.h"
#include "rotary/pairing.h"
#include "rotary/recipe.h"

namespace rotary::internal {

/// What a layer type of a family has of its own.
struct LayerFamily {
  /// Key of its theta in configs that are not nested; empty: rope_theta.
  std::string theta_key;
  /// Whether a rope_scaling that is not nested is meant for it.
  bool scaled = true;
};

enum class Partial : std::uint8_t { kNever, kScaledTypes, kAlways };

/// One row. The members are those of the JSON, see the top of families.inc.
struct Family {
  std::string model_type;
  /// Not empty: why the family cannot be read.
  std::string unsupported;
  /// False for rows that only say which parts a composite config has.
  bool has_rope = false;
  Pairing pairing = Pairing::kHalf;
  Pairing output_pairing = Pairing::kHalf;
  /// Key that turns `pairing` into half when it is false.
  std::string interleave_key;
  /// A second rope over the same frequencies that pairs halves, for the indexer of sparse
  /// attention.
  bool has_indexer = false;
  bool trailing = false;
  Turn turn = Turn::kForward;
  std::vector<std::string> axes{"t"};
  AxisMap axis_map = OneAxis{};
  /// Rules for the head's width, tried in order: "key", "key/key", "2*key/key".
  std::vector<std::string> head_dim;
  /// When partial_rotary_factor counts.
  Partial partial = Partial::kScaledTypes;
  /// Whether the key rotary_dim is honoured.
  bool rotary_dim_honoured = false;
  bool softmax_correction = false;
  /// Whether rope type dynamic takes `alpha`.
  bool alpha_honoured = false;
  /// The scale on cos and sin where yarn is given none.
  std::optional<double> attention_factor;
  double gain = 1.0;
  /// Rope types that this family spells differently.
  std::map<std::string, std::string> type_aliases;
  /// The only layer type that rotates; empty: all.
  std::string rotating_layers;
  std::map<std::string, LayerFamily> layers;
  /// Model types of sub-configs, by their key.
  std::map<std::string, std::string> parts;
  /// Values of the config class where the file is silent.
  Json defaults = Json::object();
};

/// Null for a model type without a row.
const Family* find_family(std::string_view model_type);

/// For model types without a row: one axis, halves, partial_rotary_factor honoured, no defaults.
const Family& unknown_family();

/// For those that keep the rotary part of a head apart (qk_rope_head_dim): as DeepSeek-V3 does it.
const Family& unknown_latent_family();

const std::map<std::string, Family, std::less<>>& all_families();

}  // namespace rotary::internal
