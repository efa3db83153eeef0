// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

#include "explain/rope_json.h"

#include <optional>
#include <string_view>
#include <variant>

namespace rotary::explain {
namespace {

Json or_null(const std::optional<double>& value) { return value ? Json(*value) : Json(nullptr); }
Json length_or_null(std::int64_t length) { return length > 0 ? Json(length) : Json(nullptr); }

// ---- Scalings -------------------------------------------------------------------------------

Json scaling_json(const Plain&) { return Json::object(); }
Json scaling_json(const Linear& s) { return {{"factor", s.factor}}; }
Json scaling_json(const Ntk& s) { return {{"factor", s.factor}, {"mixed_b", or_null(s.mixed_b)}}; }
Json scaling_json(const NtkAlpha& s) { return {{"alpha", s.alpha}}; }
Json scaling_json(const DynamicNtk& s) {
  return {
      {"factor", s.factor}, {"original_context", s.original_context}, {"alpha", or_null(s.alpha)}};
}
Json scaling_json(const Yarn& s) {
  const bool corrects = s.softmax_correction == SoftmaxCorrection::kMscaleAllDimSquared;
  return {{"factor", s.factor},
          {"original_context", s.original_context},
          {"beta_fast", s.beta_fast},
          {"beta_slow", s.beta_slow},
          {"truncate", s.truncate},
          {"attention_factor", or_null(s.attention_factor)},
          {"mscale", or_null(s.mscale)},
          {"mscale_all_dim", or_null(s.mscale_all_dim)},
          {"softmax_correction", corrects ? "mscale_all_dim_squared" : "none"}};
}
Json scaling_json(const YarnPaper& s) {
  return {{"factor", s.factor},
          {"original_context", s.original_context},
          {"alpha", s.alpha},
          {"beta", s.beta}};
}
Json scaling_json(const YarnWalkthrough& s) {
  return {{"factor", s.factor},
          {"original_context", s.original_context},
          {"beta_fast", s.beta_fast},
          {"beta_slow", s.beta_slow}};
}
Json scaling_json(const LongRope& s) {
  return {{"short_factor", s.short_factor},
          {"long_factor", s.long_factor},
          {"original_context", s.original_context},
          {"factor", s.factor},
          {"attention_factor", or_null(s.attention_factor)},
          {"short_mscale", or_null(s.short_mscale)},
          {"long_mscale", or_null(s.long_mscale)}};
}
Json scaling_json(const Llama3& s) {
  return {{"factor", s.factor},
          {"original_context", s.original_context},
          {"low_freq_factor", s.low_freq_factor},
          {"high_freq_factor", s.high_freq_factor}};
}
Json scaling_json(const Proportional& s) {
  return {{"fraction", s.fraction}, {"factor", s.factor}};
}
Json scaling_json(const Divisors& s) { return {{"divisor", s.divisor}}; }
Json scaling_json(const Learnable& s) { return {{"log_gain", s.log_gain}}; }
Json scaling_json(const ReceptiveField& s) { return {{"alpha", s.alpha}, {"rho", s.rho}}; }
Json scaling_json(const Xpos& s) {
  return {{"scale_base", s.scale_base}, {"gamma", s.gamma}, {"origin", s.origin}};
}

// ---- Axes -----------------------------------------------------------------------------------

std::string_view order_name(MropeOrder order) {
  switch (order) {
    case MropeOrder::kChunked:
      return "chunked";
    case MropeOrder::kInterleaved:
      return "interleaved";
    case MropeOrder::kRoundRobin:
      return "round_robin";
    case MropeOrder::kSpatialFirst:
      return "spatial_first";
    case MropeOrder::kSpatialBlocks:
      return "spatial_blocks";
  }
  return "";
}

Json map_json(const OneAxis&) { return {{"type", "one_axis"}}; }
Json map_json(const Axial& map) {
  return {{"type", "axial"},
          {"axes", map.axes},
          {"dims", map.dims},
          {"order", map.order == AxialOrder::kBlocks ? "blocks" : "alternating"},
          {"ladder", map.ladder == AxialLadder::kOwn ? "own" : "strided"},
          {"axis_order", map.axis_order}};
}
Json map_json(const Mrope& map) {
  return {{"type", "mrope"}, {"sections", map.sections}, {"order", order_name(map.order)}};
}
Json map_json(const Mixed& map) { return {{"type", "mixed"}, {"axes", map.axes}}; }

Json matrix_json(const Frequencies& frequencies, const std::vector<double>& values) {
  Json rows = Json::array();
  for (auto row = values.begin(); row != values.end(); row += frequencies.axes) {
    rows.push_back(std::vector<double>(row, row + frequencies.axes));
  }
  return rows;
}

// ---- Text -----------------------------------------------------------------------------------

bool holds_objects(const Json& json) {
  return json.is_array() && !json.empty() && json.elements().front().is_object();
}

void append(std::string& text, const Json& json, std::size_t depth) {
  const bool is_object = json.is_object() && !json.empty();
  if (!is_object && !holds_objects(json)) {
    text += json.dump();
    return;
  }
  text += is_object ? "{" : "[";
  std::string_view separator = "\n";
  const auto begin_item = [&] {
    text.append(separator).append(2 * depth + 2, ' ');
    separator = ",\n";
  };
  if (is_object) {
    for (const auto& [key, value] : json.members()) {
      begin_item();
      text += Json(key).dump() + ": ";
      append(text, value, depth + 1);
    }
  } else {
    for (const Json& element : json.elements()) {
      begin_item();
      append(text, element, depth + 1);
    }
  }
  text.append("\n").append(2 * depth, ' ') += is_object ? "}" : "]";
}

}  // namespace

Json recipe_json(const Recipe& recipe) {
  Json json = {{"type", name_of(recipe.scaling)}};
  json.update(
      std::visit([](const auto& scaling) { return scaling_json(scaling); }, recipe.scaling));
  json["theta"] = recipe.theta;
  json["ladder_dim"] = recipe.ladder_dim != 0 ? recipe.ladder_dim : recipe.rotary_dim;
  json["direction"] = recipe.direction == RotationDirection::kForward ? "forward" : "backward";
  json["gain"] = recipe.gain;
  json["wavelengths"] = recipe.wavelengths == Wavelengths::kWhole ? "whole" : "exact";
  return json;
}

Json axis_map_json(const AxisMap& map) {
  return std::visit([](const auto& kind) { return map_json(kind); }, map);
}

Json rope_json(const ModelRope& rope, const Frequencies& frequencies, std::int64_t context_in_use) {
  const HeadLayout& layout = rope.layout;
  const Pairing pairing = layout.pairing.value();
  Json json = {{"name", rope.name},
               {"head_dim", layout.head_dim},
               {"rotary_dim", frequencies.rotary_dim()},
               {"rotary_offset", layout.rotary_offset},
               {"pairing", name_of(pairing)},
               {"output_pairing", name_of(layout.output_pairing.value_or(pairing))},
               {"axes", rope.axes},
               {"frequencies", matrix_json(frequencies, frequencies.values)},
               {"scale", frequencies.scale},
               {"softmax_scale", frequencies.softmax_scale},
               {"recipe", recipe_json(rope.recipe)},
               {"context",
                {{"trained", length_or_null(rope.context.trained)},
                 {"extended", length_or_null(rope.context.extended)}}},
               {"assumed", rope.assumed},
               {"warnings", rope.warnings},
               {"theta", rope.recipe.theta},
               {"axis_map", axis_map_json(rope.recipe.axes)},
               {"layers", rope.layers},
               {"context_in_use", length_or_null(context_in_use)}};
  if (!frequencies.growth.empty()) {
    json["growth"] = matrix_json(frequencies, frequencies.growth);
    json["growth_origin"] = frequencies.growth_origin;
  }
  return json;
}

std::string to_text(const Json& json) {
  std::string text;
  append(text, json, 0);
  return text + "\n";
}

}  // namespace rotary::explain
