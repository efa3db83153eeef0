// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

#include <cmath>
#include <initializer_list>
#include <stdexcept>
#include <utility>

#include "json/json.h"
#include "rotary/error.h"
#include "rotary/torch_rope.h"

namespace rotary::torch {
namespace {

using internal::Json;

[[noreturn]] void reject(const std::string& message) {
  throw std::invalid_argument("[rope] " + message);
}

Json parse(std::string_view text) {
  try {
    return internal::parse_json(text, "rope");
  } catch (const IoError&) {
    reject("the text must be JSON, got " + std::string(text.substr(0, 80)));
  }
}

void check_keys(const Json& json) {
  static const std::initializer_list<std::string_view> kKnown = {
      "head_dim", "rotary_offset", "pairing",     "output_pairing", "axes",
      "theta",    "rotary_dim",    "frequencies", "scale",          "softmax_scale",
      "growth",   "growth_origin", "precision",   "one_axis"};
  if (!json.is_object()) reject("the text must be a JSON object");
  for (const auto& [key, value] : json.members()) {
    bool known = false;
    for (const std::string_view name : kKnown) known = known || key == name;
    if (!known) reject("unknown key " + key);
  }
}

double number(const Json& json, const char* key, double otherwise) {
  const Json* found = json.find(key);
  if (found == nullptr) return otherwise;
  if (!found->is_number()) reject(std::string(key) + " must be a number");
  return found->as_double();
}

std::int64_t whole(const Json& json, const char* key, std::int64_t otherwise) {
  const Json* found = json.find(key);
  if (found == nullptr) return otherwise;
  if (!found->is_int64()) reject(std::string(key) + " must be a whole number");
  return found->as_int64();
}

std::vector<double> numbers(const Json& json, const char* key) {
  const Json* found = json.find(key);
  if (found == nullptr) return {};
  if (!found->is_array()) reject(std::string(key) + " must be a list of numbers");
  std::vector<double> values;
  values.reserve(found->size());
  for (const Json& value : found->elements()) {
    if (!value.is_number()) reject(std::string(key) + " must be a list of numbers");
    values.push_back(value.as_double());
  }
  return values;
}

/// The index in `words` of the value of `key`; `otherwise` where it is absent.
std::size_t word_index(const Json& json, const char* key,
                       std::initializer_list<std::string_view> words, std::size_t otherwise) {
  const Json* found = json.find(key);
  if (found == nullptr) return otherwise;
  std::size_t index = 0;
  std::string all;
  for (const std::string_view name : words) {
    if (found->is_string() && found->as_string() == name) return index;
    all += (index++ == 0 ? "" : " or ") + std::string(name);
  }
  reject(std::string(key) + " must be " + all);
}

std::optional<Pairing> pairing(const Json& json, const char* key) {
  constexpr std::size_t kAbsent = 2;
  const std::size_t index = word_index(json, key, {"interleaved", "half"}, kAbsent);
  if (index == kAbsent) return std::nullopt;
  return index == 1 ? Pairing::kHalf : Pairing::kInterleaved;
}

Frequencies frequencies(const Json& json) {
  Frequencies f;
  f.axes = whole(json, "axes", 1);
  f.values = numbers(json, "frequencies");
  if (f.values.empty()) {
    if (!json.contains("theta")) reject("frequencies, or theta and rotary_dim, must be given");
    f = make_frequencies({.rotary_dim = whole(json, "rotary_dim", whole(json, "head_dim", 0)),
                          .theta = number(json, "theta", 0.0)});
  } else if (json.contains("theta") || json.contains("rotary_dim")) {
    reject("theta and rotary_dim are for ropes without frequencies");
  }
  if (f.axes < 1) reject("axes must be positive");
  f.pairs = static_cast<std::int64_t>(f.values.size()) / f.axes;
  f.scale = number(json, "scale", 1.0);
  f.softmax_scale = number(json, "softmax_scale", 1.0);
  f.growth = numbers(json, "growth");
  f.growth_origin = number(json, "growth_origin", 0.0);
  return f;
}

}  // namespace

RopeText from_text(std::string_view text) {
  const Json json = parse(text);
  check_keys(json);
  RopeText rope;
  rope.frequencies = frequencies(json);
  rope.layout = {.head_dim = whole(json, "head_dim", 0),
                 .rotary_offset = whole(json, "rotary_offset", 0),
                 .pairing = pairing(json, "pairing"),
                 .output_pairing = pairing(json, "output_pairing")};
  if (word_index(json, "precision", {"exact", "reference"}, 0) == 1) {
    rope.precision = Precision::kReference;
  }
  if (word_index(json, "one_axis", {"refused", "on_all_axes"}, 0) == 1) {
    rope.one_axis = OneAxisPositions::kOnAllAxes;
  }
  return rope;
}

std::string to_text(const RopeText& rope) {
  const Frequencies& f = rope.frequencies;
  const HeadLayout& layout = rope.layout;
  Json json;
  json["head_dim"] = layout.head_dim;
  if (layout.pairing) json["pairing"] = name_of(*layout.pairing);
  if (layout.output_pairing && layout.output_pairing != layout.pairing) {
    json["output_pairing"] = name_of(*layout.output_pairing);
  }
  if (layout.rotary_offset != 0) json["rotary_offset"] = layout.rotary_offset;
  if (rope.precision == Precision::kReference) json["precision"] = "reference";
  if (rope.one_axis == OneAxisPositions::kOnAllAxes) json["one_axis"] = "on_all_axes";
  if (f.scale != 1.0) json["scale"] = f.scale;
  if (f.softmax_scale != 1.0) json["softmax_scale"] = f.softmax_scale;
  if (f.axes != 1) json["axes"] = f.axes;
  json["frequencies"] = f.values;
  if (!f.growth.empty()) json["growth"] = f.growth;
  if (f.growth_origin != 0.0) json["growth_origin"] = f.growth_origin;
  return json.dump();
}

std::string to_text(const Rope& rope, OneAxisPositions one_axis) {
  return to_text({.frequencies = rope.frequencies(),
                  .layout = rope.layout(),
                  .precision = rope.options().precision,
                  .one_axis = one_axis});
}

}  // namespace rotary::torch
