// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

#include "explain/rope_json.h"

#include <string_view>

namespace rotary::explain {
namespace {

Json length_or_null(std::int64_t length) { return length > 0 ? Json(length) : Json(nullptr); }

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
