// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

#include "roformer/model/rope_config.h"

#include <algorithm>
#include <array>
#include <sstream>
#include <stdexcept>
#include <variant>

#include "io/json_file.h"
#include "json/json.h"
#include "rotary/frequencies.h"
#include "support/message.h"
#include "support/quote.h"

namespace rotary::roformer {
namespace {

using internal::Json;
using internal::quote;
using internal::reject;

constexpr std::string_view kSource = "rope_parameters";

bool has_encoding(const Config& config, std::string_view name) {
  std::istringstream parts(config.position_encoding);
  for (std::string part; std::getline(parts, part, '+');) {
    if (part == name) return true;
  }
  return false;
}

/// The keys of the config that describe its rotation, as the library's reader takes them.
std::string rotation_json(const Config& c) {
  Json json = {{"model_type", "roformer"},
               {"hidden_size", c.hidden_size},
               {"num_attention_heads", c.num_attention_heads},
               {"num_hidden_layers", c.num_hidden_layers},
               {"max_position_embeddings", c.max_position_embeddings},
               {"rope_theta", c.rope_theta}};
  if (c.partial_rotary_factor != 1.0) json["partial_rotary_factor"] = c.partial_rotary_factor;
  if (!c.layer_rope_theta.empty()) json["layer_rope_theta"] = c.layer_rope_theta;
  if (!c.rope_parameters.empty()) {
    json["rope_parameters"] = internal::parse_json(c.rope_parameters, std::string(kSource));
  } else if (has_encoding(c, "xpos")) {
    const Json xpos = {{"rope_type", "xpos"}};
    json["rope_parameters"] = xpos;
  }
  const Json other = internal::parse_json(c.other, "config");
  for (const char* key :
       {"layer_types", "no_rope_layer_interval", "original_max_position_embeddings"}) {
    if (const Json* found = other.find(key)) json[key] = *found;
  }
  return json.dump();
}

/// The reader names itself in its errors, a config its keys.
std::vector<ModelRope> read_ropes(const Config& config) {
  try {
    return rotary::Model::from_config(rotation_json(config), std::string(kSource)).ropes;
  } catch (const std::invalid_argument& error) {
    constexpr std::string_view kPrefix = "[Model] ";
    std::string_view text = error.what();
    if (text.starts_with(kPrefix)) text.remove_prefix(kPrefix.size());
    throw std::invalid_argument(std::string(text));
  }
}

void check_lists(const Config& c) {
  const auto layers = static_cast<std::size_t>(c.num_hidden_layers);
  if (!c.no_rope_layers.empty()) {
    if (c.no_rope_layers.size() != layers) {
      reject("no_rope_layers must have an entry for each of ", layers, " layers, got ",
             c.no_rope_layers.size());
    }
    for (const std::int64_t uses : c.no_rope_layers) {
      if (uses != 0 && uses != 1) {
        reject("no_rope_layers must have 1 for layers with rotation and 0 for others, got ", uses);
      }
    }
  }
  if (c.layer_rope_theta.empty()) return;
  if (c.layer_rope_theta.size() != layers) {
    reject("layer_rope_theta must have an entry for each of ", layers, " layers, got ",
           c.layer_rope_theta.size());
  }
  for (const double theta : c.layer_rope_theta) {
    if (!(theta >= 0.0)) reject("layer_rope_theta must be at least 0, got ", theta);
  }
}

/// The first rope that lists the layer; none: the layer has no rotation.
std::optional<std::size_t> rope_with(const std::vector<ModelRope>& ropes, std::int64_t layer) {
  if (ropes.size() == 1 && ropes[0].layers.empty()) return 0;
  for (std::size_t i = 0; i < ropes.size(); ++i) {
    if (std::ranges::binary_search(ropes[i].layers, layer)) return i;
  }
  return std::nullopt;
}

void check_rope(const Config& c, const ModelRope& rope) {
  if (!rope.ignored_keys.empty()) {
    reject(kSource, " has a key that rope_type ", quote(name_of(rope.recipe.scaling)),
           " does not read: ", quote(rope.ignored_keys.front()));
  }
  if (axes_of(rope.recipe.axes) != 1) {
    reject(kSource, " must have one axis, got ", axes_of(rope.recipe.axes));
  }
  const bool grows = std::holds_alternative<Xpos>(rope.recipe.scaling);
  if (has_encoding(c, "xpos") && !grows) {
    reject("rope_type must be \"xpos\" for position_encoding \"xpos\", got ",
           quote(name_of(rope.recipe.scaling)));
  }
  if (grows && !c.causal()) {
    reject(
        "xpos needs a causal model (is_decoder or RoFormerForCausalLM): scores of later keys "
        "would grow with their distance");
  }
  if (grows && c.attention_type != AttentionKind::kSoftmax) {
    reject("xpos needs attention_type \"softmax\"");
  }
  if (grows && c.rotary_value) reject("rotary_value must be false for xpos");
  if (!depends_on_context(rope.recipe)) return;
  if (c.attention_type != AttentionKind::kSoftmax && c.rope_context == 0) {
    reject("rope_context must be given for rope_type ", quote(name_of(rope.recipe.scaling)),
           " with linear attention, which has one rope for all rows of a batch");
  }
  // The other regime.
  static_cast<void>(rope.make_frequencies(rope.context.trained + 1));
}

// ---- Other rope parameters for a trained model --------------------------------------------------

Json read_rope_flag(const std::string& text) {
  if (!text.starts_with('{')) return internal::read_json_file(text);
  Json json = internal::try_parse_json(text);
  if (json.is_null()) reject("--rope must be a JSON object or a file with one, got ", quote(text));
  return json;
}

/// Adds `key` unless it is there.
void add_default(Json& dict, std::string_view key, const Json& value) {
  const Json* found = dict.find(key);
  if (found == nullptr || found->is_null()) dict[key] = value;
}

bool reads_original_context(const Json& dict) {
  constexpr std::array<std::string_view, 6> kTypes = {"dynamic",          "yarn",     "yarn_paper",
                                                      "yarn_walkthrough", "longrope", "llama3"};
  const Json* type = dict.find("rope_type");
  if (type == nullptr) type = dict.find("type");
  return type != nullptr && type->is_string() &&
         std::ranges::find(kTypes, type->as_string()) != kTypes.end();
}

}  // namespace

bool rotates(const Config& config) {
  return has_encoding(config, "rope") || has_encoding(config, "xpos");
}

bool LayerRopes::depend_on_context() const {
  return std::ranges::any_of(
      ropes, [](const ModelRope& rope) { return rotary::depends_on_context(rope.recipe); });
}

LayerRopes layer_ropes(const Config& config) {
  if (!rotates(config)) return {.ropes = {}, .of_layer = {}};
  LayerRopes result{.ropes = read_ropes(config), .of_layer = {}};
  const bool listed =
      std::ranges::all_of(result.ropes, [](const ModelRope& rope) { return !rope.layers.empty(); });
  if (result.ropes.size() > 1 && !listed) {
    reject(kSource, " by layer type needs layer_types, a list with the type of each layer");
  }
  for (std::int64_t i = 0; i < config.num_hidden_layers; ++i) {
    const auto at = static_cast<std::size_t>(i);
    const bool skipped =
        (at < config.no_rope_layers.size() && config.no_rope_layers[at] == 0) ||
        (at < config.layer_rope_theta.size() && config.layer_rope_theta[at] == 0.0);
    result.of_layer.push_back(skipped ? std::nullopt : rope_with(result.ropes, i));
  }
  return result;
}

void check_ropes(const Config& config) {
  if (!rotates(config)) {
    if (config.rope_parameters.empty() && config.no_rope_layers.empty() &&
        config.layer_rope_theta.empty()) {
      return;
    }
    reject(kSource,
           ", no_rope_layers and layer_rope_theta need a position_encoding with rope, got ",
           quote(config.position_encoding));
  }
  check_lists(config);
  if (config.rope_context < 0) reject("rope_context must be at least 0, got ", config.rope_context);
  for (const ModelRope& rope : layer_ropes(config).ropes) check_rope(config, rope);
}

void apply_rope_change(const RopeChange& change, Config& config) {
  if (change.is_empty()) return;
  if (!rotates(config)) {
    reject("--rope and --context are for models with rope, this one has position_encoding ",
           quote(config.position_encoding));
  }
  const std::int64_t trained = config.max_position_embeddings;
  if (change.context > 0) {
    config.rope_context = change.context;
    if (!has_encoding(config, "learned")) config.max_position_embeddings = change.context;
  }
  const Json old = config.rope_parameters.empty()
                       ? Json::object()
                       : internal::parse_json(config.rope_parameters, std::string(kSource));
  Json dict = change.rope.empty() ? old : read_rope_flag(change.rope);
  if (!dict.is_object()) reject("--rope must be a JSON object, got ", dict.excerpt());
  for (const char* key : {"rope_theta", "partial_rotary_factor"}) {
    if (const Json* value = old.find(key)) add_default(dict, key, *value);
  }
  if (reads_original_context(dict)) {
    add_default(dict, "original_max_position_embeddings", trained);
  }
  config.rope_parameters = dict.empty() ? std::string() : dict.dump();
  try {
    if (!layer_ropes(config).depend_on_context()) config.rope_context = 0;
    check_config(config);
  } catch (const std::invalid_argument& error) {
    reject("--rope: ", error.what());
  }
}

}  // namespace rotary::roformer
