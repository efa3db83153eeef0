// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

#include "model/layers.h"

#include <algorithm>
#include <cstdlib>
#include <map>
#include <set>
#include <variant>

#include "model/part.h"
#include "support/message.h"

namespace rotary::internal {
namespace {

/// Indices of the items for which `wanted` holds; empty if the value is not a list.
template <typename Wanted>
std::vector<std::int64_t> indices_where(const Found& list, Wanted wanted) {
  std::vector<std::int64_t> indices;
  if (!list || !list.value->is_array()) return indices;
  std::int64_t index = 0;
  for (const Json& item : list.value->elements()) {
    if (wanted(item)) indices.push_back(index);
    ++index;
  }
  return indices;
}

/// The number of layers; 0 if the config does not state it or it is implausibly large.
std::int64_t layer_count(const Lookup& lookup) {
  constexpr std::int64_t kMaxLayers = 100'000;
  const Found count = lookup.in_file("num_hidden_layers");
  if (!count) return 0;
  const std::int64_t total = as_integer(*count.value, count.key, lookup.source());
  return total > kMaxLayers ? 0 : total;
}

/// Layers i with ((i+1) % every == 0) == wanted.
std::vector<std::int64_t> every_nth(std::int64_t every, std::int64_t total, bool wanted) {
  std::vector<std::int64_t> layers;
  for (std::int64_t layer = 0; every > 0 && layer < total; ++layer) {
    if (((layer + 1) % every == 0) == wanted) layers.push_back(layer);
  }
  return layers;
}

/// From layer_types, else from sliding_window_pattern n: every n-th layer has full attention.
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

/// no_rope_layers has 1 for layers that *do* use a rope; no_rope_layer_interval skips every n-th.
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

/// head_dim of the first layer of that type in per_layer_config, whose keys are layer indices; in
/// latent attention, the width of its rotary part.
Found head_dim_of_layer(const Lookup& lookup, const std::string& layer_type) {
  const Found overrides = lookup.in_file("per_layer_config");
  if (!overrides || !overrides.value->is_object()) return {};
  const bool latent = lookup.family().head_dim.front() == "qk_rope_head_dim";
  const std::string width = latent ? "qk_rope_head_dim" : "head_dim";
  std::map<std::int64_t, const Json::Member*> by_layer;  // with a width; of equal ones the first
  for (const Json::Member& member : overrides.value->members()) {
    const Json* found = member.value.find(width);
    if (found == nullptr || found->is_null()) continue;
    by_layer.emplace(std::strtoll(member.key.c_str(), nullptr, 10), &member);
  }
  for (const std::int64_t layer : layers_of_type(lookup, layer_type)) {
    const auto found = by_layer.find(layer);
    if (found == by_layer.end()) continue;
    const auto& [key, value] = *found->second;
    return {.value = value.find(width),
            .key = concat("per_layer_config.", key, ".", width),
            .assumed = false};
  }
  return {};
}

/// The rope, and an unscaled one for the layers that rope_scaling_layers does not list.
void split_by_scaling(const Lookup& lookup, ModelRope rope, std::vector<ModelRope>& ropes) {
  const Found list = lookup.in_file("rope_scaling_layers");
  if (!list || std::holds_alternative<Plain>(rope.recipe.scaling)) {
    ropes.push_back(std::move(rope));
    return;
  }
  rope.layers = as_integers(*list.value, list.key, lookup.source());
  const std::set<std::int64_t> scaled(rope.layers.begin(), rope.layers.end());
  ModelRope unscaled = rope;
  unscaled.name = "unscaled";
  unscaled.recipe.scaling = Plain{};
  unscaled.layers.clear();
  for (std::int64_t layer = 0; layer < layer_count(lookup); ++layer) {
    if (!scaled.contains(layer)) unscaled.layers.push_back(layer);
  }
  ropes.push_back(std::move(rope));
  if (!unscaled.layers.empty()) ropes.push_back(std::move(unscaled));
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
  return found.value->elements()[std::min(layer, found.value->size() - 1)];
}

void split_by_layers(const Lookup& lookup, ModelRope rope, std::vector<ModelRope>& ropes) {
  const Found list = lookup.in_file("layer_rope_theta");
  if (!list) return split_by_scaling(lookup, std::move(rope), ropes);
  const std::vector<double> thetas = as_numbers(*list.value, list.key, lookup.source());
  std::map<double, std::vector<std::int64_t>> layers;
  for (std::size_t i = 0; i < thetas.size(); ++i) {
    if (thetas[i] != 0.0) layers[thetas[i]].push_back(static_cast<std::int64_t>(i));
  }
  if (layers.size() > kMaxRopes) {
    reject("[Model] ", lookup.source(), ": ", list.key, " has more than ", kMaxRopes,
           " different values: ", layers.size());
  }
  if (layers.empty()) ropes.push_back(rope);
  for (const auto& [theta, indices] : layers) {
    ModelRope one = rope;
    if (layers.size() > 1 && theta != rope.recipe.theta) one.name = concat("theta_", theta);
    one.recipe.theta = theta;
    one.layers = indices;
    ropes.push_back(std::move(one));
  }
}

}  // namespace rotary::internal
