// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

#include "explain/describe.h"

#include <fmt/core.h>

#include <algorithm>
#include <cstddef>
#include <string_view>
#include <variant>

#include "explain/format.h"
#include "explain/rope_json.h"
#include "explain/text_layout.h"

namespace rotary::explain {
namespace {

// ---- Scaling -----------------------------------------------------------------------------------

std::string_view scaling_meaning(const Plain&) { return "frequencies theta^(-2i/d), not scaled"; }
std::string_view scaling_meaning(const Linear&) {
  return "position interpolation: all frequencies are divided by the factor";
}
std::string_view scaling_meaning(const Ntk&) {
  return "NTK-RoPE: high frequencies are nearly unchanged, low ones are divided by the factor";
}
std::string_view scaling_meaning(const NtkAlpha&) {
  return "NTK-aware: a larger base, which lowers low frequencies more than high ones";
}
std::string_view scaling_meaning(const DynamicNtk&) {
  return "dynamic NTK: beyond the original context the base grows with the context in use";
}
std::string_view scaling_meaning(const Yarn&) {
  return "YaRN: high frequencies are kept, low ones divided by the factor, a ramp over pairs "
         "between";
}
std::string_view scaling_meaning(const YarnPaper&) {
  return "YaRN as in the paper: the ramp is over turns in the original context";
}
std::string_view scaling_meaning(const YarnWalkthrough&) {
  return "the \"yarn\" of a walk-through; it is not YaRN";
}
std::string_view scaling_meaning(const LongRope&) {
  return "LongRoPE: a divisor per pair, one list up to the original context, one beyond it";
}
std::string_view scaling_meaning(const Llama3&) {
  return "Llama 3.1: high frequencies are kept, low ones divided by the factor, a ramp between";
}
std::string_view scaling_meaning(const Proportional&) {
  return "frequencies of the whole head; only the highest ones are used, the other pairs are not "
         "rotated";
}
std::string_view scaling_meaning(const Divisors&) {
  return "a divisor per pair, stored in the file";
}
std::string_view scaling_meaning(const Learnable&) { return "learned frequencies"; }
std::string_view scaling_meaning(const ReceptiveField&) {
  return "receptive field: one common frequency is mixed into all";
}
std::string_view scaling_meaning(const Xpos&) {
  return "xPos: queries also grow and keys shrink exponentially with the position";
}

/// "factor 8, original_context 8192": the parameters of the scaling.
std::string parameter_text(const Recipe& recipe) {
  std::vector<std::string> parts;
  const Json json = recipe_json(recipe);
  for (const auto& [key, value] : json.members()) {
    const bool shown_elsewhere = key == "type" || key == "theta" || key == "ladder_dim" ||
                                 key == "direction" || key == "gain" || key == "wavelengths";
    const bool is_unset = value.is_null() || value == "none";
    if (!shown_elsewhere && !is_unset) parts.push_back(key + " " + value_text(value));
  }
  return join(parts, ", ");
}

// ---- Layout -------------------------------------------------------------------------------------

std::string rotary_dim_meaning(const HeadLayout& layout, const Frequencies& frequencies) {
  const std::int64_t rotary_dim = frequencies.rotary_dim();
  std::int64_t rotated = 0;
  for (std::int64_t pair = 0; pair < frequencies.pairs; ++pair) {
    bool rotates = false;
    for (std::int64_t axis = 0; axis < frequencies.axes; ++axis) {
      rotates = rotates || frequencies(pair, axis) != 0.0;
    }
    rotated += rotates ? 1 : 0;
  }
  std::string as_pairs = "as " + plural(frequencies.pairs, "pair");
  if (rotated < frequencies.pairs) as_pairs += fmt::format(", {} of them rotated", rotated);
  if (rotary_dim == layout.head_dim) {
    return (rotated < frequencies.pairs ? "the whole head, " : "the whole head is rotated, ") +
           as_pairs;
  }
  const std::int64_t rest = layout.head_dim - rotary_dim;
  const bool trailing = layout.rotary_offset == rest;
  return fmt::format("the {}elements {}-{} are rotated, {}; the other {} pass through",
                     layout.rotary_offset == 0 ? "first "
                     : trailing                ? "last "
                                               : "",
                     layout.rotary_offset, layout.rotary_offset + rotary_dim - 1, as_pairs, rest);
}

std::string pairing_meaning(Pairing pairing, const HeadLayout& layout, std::int64_t pairs) {
  const std::string from = layout.rotary_offset == 0
                               ? ""
                               : fmt::format(", counted from element {}", layout.rotary_offset);
  if (pairing == Pairing::kInterleaved) return "pair i is elements 2i and 2i+1" + from;
  return fmt::format("pair i is elements i and i+{}{}", pairs, from);
}

// ---- Axes ---------------------------------------------------------------------------------------

std::string axes_meaning(const std::vector<std::string>& axes) {
  if (axes.size() == 1) return "one position per token";
  std::vector<std::string> names;
  names.reserve(axes.size());
  for (const std::string& axis : axes) {
    names.push_back(axis == "t"   ? "t time"
                    : axis == "h" ? "h row"
                    : axis == "w" ? "w column"
                                  : axis);
  }
  return plural(static_cast<std::int64_t>(axes.size()), "position") +
         " per token: " + join(names, ", ");
}

std::string axis_map_meaning(const OneAxis&) { return ""; }
std::string axis_map_meaning(const Mrope& map) {
  switch (map.order) {
    case MropeOrder::kChunked:
      return "M-RoPE, chunked: each axis has a contiguous range of pairs";
    case MropeOrder::kInterleaved:
      return "M-RoPE, interleaved: the axes alternate from pair to pair";
    case MropeOrder::kRoundRobin:
      return "M-RoPE, round robin: the axes alternate until each has its number of pairs";
    case MropeOrder::kSpatialFirst:
      return "M-RoPE: h and w alternate over the high frequencies, t has the low ones";
    case MropeOrder::kSpatialBlocks:
      return "M-RoPE: h and w share the high frequencies, t has the low ones; in blocks of pairs";
  }
  return "";
}
std::string axis_map_meaning(const Axial& map) {
  const std::string order = map.order == AxialOrder::kBlocks ? "in blocks" : "alternating";
  return map.ladder == AxialLadder::kOwn
             ? "axial, " + order + ": each axis has frequencies of its own"
             : "axial, " + order + ": the axes alternate over one sequence of frequencies";
}
std::string axis_map_meaning(const Mixed&) { return "mixed: every axis rotates every pair"; }

/// "t 24, h 20, w 20": pairs that each axis rotates.
std::string pairs_per_axis(const ModelRope& rope, const Frequencies& frequencies) {
  std::vector<std::string> parts;
  for (std::int64_t axis = 0; axis < frequencies.axes; ++axis) {
    std::int64_t count = 0;
    for (std::int64_t pair = 0; pair < frequencies.pairs; ++pair) {
      count += frequencies(pair, axis) != 0.0 ? 1 : 0;
    }
    const auto index = static_cast<std::size_t>(axis);
    const std::string name = index < rope.axes.size() ? rope.axes[index] : fmt::format("{}", axis);
    parts.push_back(fmt::format("{} {}", name, count));
  }
  return join(parts, ", ");
}

// ---- Context ------------------------------------------------------------------------------------

std::string_view regime_name(const Scaling& scaling, bool beyond) {
  if (std::holds_alternative<LongRope>(scaling)) {
    return beyond ? "the long_factor list" : "the short_factor list";
  }
  return beyond ? "scaled" : "not scaled";
}

void add_context(std::vector<Property>& properties, const ModelRope& rope,
                 std::int64_t context_in_use) {
  const auto text = [](std::int64_t length) {
    return length > 0 ? fmt::format("{}", length) : std::string("not known");
  };
  properties.push_back(
      {"trained context", text(rope.context.trained),
       rope.context.trained > 0 ? "context length in training" : "not in the file"});
  if (rope.context.extended > 0 && rope.context.extended != rope.context.trained) {
    properties.push_back(
        {"extended to", text(rope.context.extended), "context length that the model is meant for"});
  }
  const std::int64_t threshold = context_threshold(rope.recipe);
  if (threshold <= 0) {
    if (context_in_use > 0) {
      properties.push_back(
          {"context in use", text(context_in_use), "the frequencies do not depend on it"});
    }
    return;
  }
  const bool beyond = context_in_use > threshold;
  properties.push_back(
      {"regime", fmt::format("{} {}", beyond ? "beyond" : "up to", threshold),
       fmt::format(
           "the frequencies depend on the context in use{}; these are for contexts {} the original "
           "{} positions: {}. --context {} shows the others.",
           context_in_use > 0 ? fmt::format(" (here {})", context_in_use) : "",
           beyond ? "beyond" : "up to", threshold, regime_name(rope.recipe.scaling, beyond),
           beyond ? threshold : std::max(threshold + 1, rope.context.extended))});
}

// ---- Properties ---------------------------------------------------------------------------------

void add_recipe(std::vector<Property>& properties, const Recipe& recipe) {
  const auto meaning = std::visit([](const auto& s) { return scaling_meaning(s); }, recipe.scaling);
  properties.push_back({"type", std::string(name_of(recipe.scaling)), std::string(meaning)});
  if (std::string text = parameter_text(recipe); !text.empty()) {
    properties.push_back({"parameters", std::move(text), ""});
  }
  if (std::holds_alternative<Mixed>(recipe.axes)) return;
  const std::int64_t dim = recipe.ladder_dim != 0 ? recipe.ladder_dim : recipe.rotary_dim;
  const auto* axial = std::get_if<Axial>(&recipe.axes);
  const bool own = axial != nullptr && axial->ladder == AxialLadder::kOwn;
  properties.push_back(
      {"theta", format_number(recipe.theta),
       own ? "the base: pair i of an axis rotates by theta^(-2i/d) radians per position, d the "
             "dims of the axis"
           : fmt::format("the base: pair i rotates by theta^(-2i/{}) radians per position{}", dim,
                         std::holds_alternative<Plain>(recipe.scaling) ? "" : ", before scaling")});
  if (recipe.gain != 1.0) {
    properties.push_back({"gain", format_number(recipe.gain), "multiplies every frequency"});
  }
  if (recipe.wavelengths == Wavelengths::kWhole) {
    properties.push_back(
        {"wavelengths", "whole", "Resonance: each wavelength is rounded to whole positions"});
  }
  if (recipe.direction == RotationDirection::kBackward) {
    properties.push_back(
        {"direction", "backward", "angles are negative: pairs rotate in the opposite direction"});
  }
}

void add_layout(std::vector<Property>& properties, const HeadLayout& layout,
                const Frequencies& frequencies) {
  properties.push_back({"head dim", fmt::format("{}", layout.head_dim), "elements of one head"});
  properties.push_back({"rotary dim", fmt::format("{}", frequencies.rotary_dim()),
                        rotary_dim_meaning(layout, frequencies)});
  const Pairing pairing = layout.pairing.value();
  properties.push_back({"pairing", std::string(name_of(pairing)),
                        pairing_meaning(pairing, layout, frequencies.pairs)});
  const Pairing output = layout.output_pairing.value_or(pairing);
  if (output != pairing) {
    properties.push_back(
        {"output pairing", std::string(name_of(output)),
         "rotated pairs are stored in this order: attention scores do not change, cached keys do"});
  }
}

void add_scales(std::vector<Property>& properties, const Frequencies& frequencies) {
  properties.push_back({"scale", format_number(frequencies.scale),
                        frequencies.scale == 1.0
                            ? "cos and sin are not scaled"
                            : fmt::format("multiplies cos and sin, so attention scores by {}",
                                          format_number(frequencies.scale * frequencies.scale))});
  if (frequencies.softmax_scale != 1.0) {
    properties.push_back(
        {"softmax scale", format_number(frequencies.softmax_scale),
         "attention multiplies scores by this and 1/sqrt(d); not part of the rotation"});
  }
  if (!frequencies.growth.empty()) {
    properties.push_back({"growth origin", format_number(frequencies.growth_origin),
                          "the position at which growth is 1"});
  }
}

}  // namespace

std::vector<Property> describe(const ModelRope& rope, const Frequencies& frequencies,
                               std::int64_t context_in_use) {
  std::vector<Property> properties;
  add_recipe(properties, rope.recipe);
  add_layout(properties, rope.layout, frequencies);
  properties.push_back({"axes", join(rope.axes, " "), axes_meaning(rope.axes)});
  if (frequencies.axes > 1) {
    properties.push_back(
        {"pairs per axis", pairs_per_axis(rope, frequencies),
         std::visit([](const auto& map) { return axis_map_meaning(map); }, rope.recipe.axes)});
  }
  add_scales(properties, frequencies);
  add_context(properties, rope, context_in_use);
  if (!rope.layers.empty()) {
    properties.push_back({"layers", format_ranges(rope.layers),
                          plural(static_cast<std::int64_t>(rope.layers.size()), "layer") +
                              (rope.layers.size() == 1 ? " uses this rope" : " use this rope")});
  }
  return properties;
}

std::string value_text(const Json& value) {
  constexpr std::size_t kMaxListed = 8;
  if (value.is_null()) return "not set";
  if (value.is_string()) return value.as_string();
  if (value.is_number()) return format_number(value.as_double());
  if (!value.is_array()) return value.dump();
  if (value.empty()) return "none";
  const Json::Array& elements = value.elements();
  const bool is_numeric = elements.front().is_number();
  if (!is_numeric || value.size() <= kMaxListed) {
    std::vector<std::string> parts;
    for (const Json& element : elements) parts.push_back(value_text(element));
    return join(parts, " ");
  }
  const auto [low, high] = std::minmax_element(
      elements.begin(), elements.end(),
      [](const Json& a, const Json& b) { return a.as_double() < b.as_double(); });
  return fmt::format("{} numbers from {} to {}", elements.size(), format_number(low->as_double()),
                     format_number(high->as_double()));
}

std::int64_t context_threshold(const Recipe& recipe) {
  if (const auto* s = std::get_if<DynamicNtk>(&recipe.scaling)) return s->original_context;
  if (const auto* s = std::get_if<LongRope>(&recipe.scaling)) return s->original_context;
  if (const auto* s = std::get_if<YarnWalkthrough>(&recipe.scaling)) return s->original_context;
  return 0;
}

}  // namespace rotary::explain
