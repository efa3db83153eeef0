// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

#include "model/layers.h"

#include <algorithm>
#include <cstdlib>
#include <map>

#include "support/message.h"

namespace rotary::internal {
namespace {

/// Indices of the items for which `wanted` holds; empty for what is not a list.
template <typename Wanted>
std::vector<std::int64_t> indices_where(const Found& list, Wanted wanted) {
  std::vector<std::int64_t> indices;
  if (!list || !list.value->is_array()) return indices;
  std::int64_t index = 0;
  for (const Json& item : *list.value) {
    if (wanted(item)) indices.push_back(index);
    ++index;
  }
  return indices;
}

/// A number of layers that can be listed; 0 where the config does not give one.
std::int64_t layer_count(const Lookup& lookup) {
  constexpr std::int64_t kMostLayers = 100'000;
  const Found count = lookup.in_file("num_hidden_layers");
  if (!count) return 0;
  const std::int64_t total = as_integer(*count.value, count.key, lookup.source());
  return total > kMostLayers ? 0 : total;
}

/// Layers i for which i+1 is a multiple of `every`, or those for which it is not.
std::vector<std::int64_t> every_nth(std::int64_t every, std::int64_t total, bool wanted) {
  std::vector<std::int64_t> layers;
  for (std::int64_t layer = 0; every > 0 && layer < total; ++layer) {
    if (((layer + 1) % every == 0) == wanted) layers.push_back(layer);
  }
  return layers;
}

/// By layer_types; by sliding_window_pattern where that is all there is: every n-th layer is full.
std::vector<std::int64_t> layers_of_type(const Lookup& lookup, const std::string& layer_type) {
  if (const Found types = lookup.in_file("layer_types")) {
    return indices_where(types, [&layer_type](const Json& item) { return item == layer_type; });
  }
  const Found pattern = lookup.in_file("sliding_window_pattern");
  const bool full = layer_type == "full_attention";
  if (!pattern || !pattern.value->is_number() || (!full && layer_type != "sliding_attention")) {
    return {};
  }
  return every_nth(as_integer(*pattern.value, pattern.key, lookup.source()), layer_count(lookup),
                   full);
}

/// no_rope_layers holds 1 for layers that *do* rotate; no_rope_layer_interval skips every n-th.
std::vector<std::int64_t> layers_with_rope(const Lookup& lookup) {
  if (auto layers = indices_where(lookup.in_file("no_rope_layers"),
                                  [](const Json& item) { return item == 1 || item == true; });
      !layers.empty()) {
    return layers;
  }
  const Found interval = lookup.find("no_rope_layer_interval");
  if (!interval) return {};
  return every_nth(as_integer(*interval.value, interval.key, lookup.source()), layer_count(lookup),
                   false);
}

/// head_dim of the first layer of that type in per_layer_config, whose keys are layer numbers.
Found head_dim_of_layer(const Lookup& lookup, const std::string& layer_type) {
  const Found overrides = lookup.in_file("per_layer_config");
  if (!overrides || !overrides.value->is_object()) return {};
  for (const std::int64_t layer : layers_of_type(lookup, layer_type)) {
    for (const auto& [key, values] : overrides.value->items()) {
      if (std::strtoll(key.c_str(), nullptr, 10) != layer || !values.is_object()) continue;
      const auto found = values.find("head_dim");
      if (found == values.end() || found->is_null()) continue;
      return {.value = &*found, .key = "per_layer_config." + key + ".head_dim", .assumed = false};
    }
  }
  return {};
}

}  // namespace

std::vector<std::int64_t> rotating_layers(const Lookup& lookup, const std::string& layer_type) {
  if (layer_type != "default") return layers_of_type(lookup, layer_type);
  if (const std::string& only = lookup.family().rotating_layers; !only.empty()) {
    return layers_of_type(lookup, only);
  }
  return layers_with_rope(lookup);
}

std::int64_t layer_head_dim(const Lookup& lookup, const std::string& layer_type,
                            std::vector<std::string>& assumed) {
  if (const Found found = head_dim_of_layer(lookup, layer_type)) {
    return as_integer(*found.value, found.key, lookup.source());
  }
  if (layer_type == "full_attention") {
    if (const auto width = lookup.integer("global_head_dim", assumed)) return *width;
  }
  return lookup.head_dim(assumed);
}

const Json& of_layer_type(const Lookup& lookup, const Found& found, const std::string& layer_type) {
  if (!found.value->is_array() || found.value->empty()) return *found.value;
  const std::vector<std::int64_t> layers = layers_of_type(lookup, layer_type);
  const std::size_t layer = layers.empty() ? 0 : static_cast<std::size_t>(layers.front());
  return (*found.value)[std::min(layer, found.value->size() - 1)];
}

void split_by_theta(const Lookup& lookup, ModelRope rope, std::vector<ModelRope>& ropes) {
  const Found list = lookup.in_file("layer_rope_theta");
  if (!list) {
    ropes.push_back(std::move(rope));
    return;
  }
  const std::vector<double> thetas = as_numbers(*list.value, list.key, lookup.source());
  std::map<double, std::vector<std::int64_t>> layers;
  for (std::size_t i = 0; i < thetas.size(); ++i) {
    if (thetas[i] != 0.0) layers[thetas[i]].push_back(static_cast<std::int64_t>(i));
  }
  if (layers.empty()) ropes.push_back(rope);
  for (const auto& [theta, numbers] : layers) {
    ModelRope one = rope;
    if (layers.size() > 1 && theta != rope.recipe.theta) one.name = concat("theta_", theta);
    one.recipe.theta = theta;
    one.layers = numbers;
    ropes.push_back(std::move(one));
  }
}

}  // namespace rotary::internal
