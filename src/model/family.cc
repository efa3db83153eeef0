// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

#include "model/family.h"

#include "support/message.h"

namespace rotary::internal {
namespace {

constexpr std::string_view kRows[] = {
#include "model/families.inc"
};

const std::vector<std::string>& default_head_dim() {
  static const std::vector<std::string> kRules = {"head_dim", "hidden_size/num_attention_heads"};
  return kRules;
}

Pairing pairing_of(const std::string& name) {
  if (name == "half") return Pairing::kHalf;
  if (name == "interleaved") return Pairing::kInterleaved;
  reject("[families] unknown pairing ", name);
}

Partial partial_of(const std::string& name) {
  if (name == "never") return Partial::kNever;
  if (name == "scaled") return Partial::kScaledTypes;
  if (name == "always") return Partial::kAlways;
  reject("[families] unknown rule for partial ", name);
}

std::vector<std::string> axis_names(const std::string& letters) {
  std::vector<std::string> names;
  for (const char letter : letters) names.emplace_back(1, letter);
  return names;
}

std::string text(const Json& row, std::string_view key, std::string_view otherwise = "") {
  const Json* value = row.find(key);
  return value == nullptr ? std::string(otherwise) : value->as_string();
}

std::map<std::string, std::string> texts(const Json& row, std::string_view key) {
  std::map<std::string, std::string> result;
  const Json* object = row.find(key);
  if (object == nullptr) return result;
  for (const auto& [name, value] : object->members()) result[name] = value.as_string();
  return result;
}

std::vector<std::int64_t> integers(const Json& list) {
  std::vector<std::int64_t> result;
  for (const Json& element : list.elements()) result.push_back(element.as_int64());
  return result;
}

std::vector<std::string> head_dim_rules(const Json& row) {
  const Json* rules = row.find("head_dim");
  if (rules == nullptr) return default_head_dim();
  std::vector<std::string> result;
  for (const Json& rule : rules->elements()) result.push_back(rule.as_string());
  return result;
}

AxisMap axis_map_of(const Json& row) {
  const std::string axes = text(row, "axes", "t");
  if (axes == "t") return OneAxis{};
  const std::string order = text(row, "order");
  if (order == "blocks" || order == "alternating") {
    return Axial{
        .axes = static_cast<std::int64_t>(axes.size()),
        .order = order == "blocks" ? AxialOrder::kBlocks : AxialOrder::kAlternating,
        .ladder = text(row, "ladder") == "strided" ? AxialLadder::kStrided : AxialLadder::kOwn,
        .axis_order = integers(row.contains("axis_order") ? row.at("axis_order") : Json::array())};
  }
  Mrope map{.sections = integers(row.at("sections"))};
  if (order == "chunked")
    map.order = MropeOrder::kChunked;
  else if (order == "interleaved")
    map.order = MropeOrder::kInterleaved;
  else if (order == "spatial-first")
    map.order = MropeOrder::kSpatialFirst;
  else if (order == "spatial-blocks")
    map.order = MropeOrder::kSpatialBlocks;
  else
    reject("[families] unknown order ", order);
  return map;
}

Family parse_row(const Json& row) {
  Family family;
  family.model_type = row.at("model_type").as_string();
  family.parts = texts(row, "parts");
  family.unsupported = text(row, "unsupported");
  family.warns = text(row, "warns");
  for (const auto& [key, value] : texts(row, "when")) family.condition = {key, value};
  family.has_rope = row.contains("pairing");
  if (!family.has_rope) return family;
  family.pairing = pairing_of(row.at("pairing").as_string());
  family.output_pairing = pairing_of(text(row, "writes", row.at("pairing").as_string()));
  family.interleave_key = text(row, "interleave_key");
  family.has_indexer = text(row, "indexer") == "half";
  family.trailing = text(row, "slice", "leading") == "trailing";
  family.direction = text(row, "direction", "forward") == "backward" ? RotationDirection::kBackward
                                                                     : RotationDirection::kForward;
  family.axes = axis_names(text(row, "axes", "t"));
  family.axis_map = axis_map_of(row);
  family.head_dim = head_dim_rules(row);
  family.partial = partial_of(text(row, "partial", "scaled"));
  family.rotary_dim_honoured = text(row, "rotary_dim", "ignored") == "honoured";
  family.equal_shares = text(row, "rotary_dim", "ignored") == "shares";
  family.mrope_honoured = text(row, "mrope", "honoured") == "honoured";
  family.axis_slices = text(row, "slice", "leading") == "axes";
  family.softmax_correction = text(row, "softmax") == "mscale_all_dim";
  family.alpha_honoured = text(row, "alpha", "ignored") == "honoured";
  family.dynamic_original_honoured = text(row, "dynamic", "max") == "original";
  if (row.contains("attention_factor")) {
    family.attention_factor = row.at("attention_factor").as_double();
  }
  if (const Json* gain = row.find("gain")) family.gain = gain->as_double();
  family.type_aliases = texts(row, "types");
  family.rotating_layers = text(row, "only");
  const Json* layers = row.find("layers");
  for (const auto& [name, layer] : layers == nullptr ? Json::Object() : layers->members()) {
    family.layers[name] = {.theta_key = text(layer, "theta"),
                           .scaled = text(layer, "scaling", "applies") == "applies"};
  }
  if (const Json* defaults = row.find("defaults")) family.defaults = *defaults;
  return family;
}

std::map<std::string, Family, std::less<>> parse_rows() {
  std::map<std::string, Family, std::less<>> families;
  for (const std::string_view line : kRows) {
    const Json parsed = parse_json(line, "families.inc");
    Family family = parse_row(parsed);
    std::string name = family.model_type;
    if (const std::string version = text(parsed, "transformers"); !version.empty()) {
      name += "@" + version;
    }
    if (!families.emplace(name, std::move(family)).second) {
      reject("[families] two rows for ", name);
    }
  }
  return families;
}

}  // namespace

const std::map<std::string, Family, std::less<>>& all_families() {
  static const std::map<std::string, Family, std::less<>> kFamilies = parse_rows();
  return kFamilies;
}

const Family* find_family(std::string_view model_type, std::string_view version) {
  if (!version.empty()) {
    const auto older = all_families().find(concat(model_type, "@", version));
    if (older != all_families().end()) return &older->second;
  }
  const auto found = all_families().find(model_type);
  return found == all_families().end() ? nullptr : &found->second;
}

const Family& unknown_family() {
  static const Family kUnknown = [] {
    Family family;
    family.has_rope = true;
    family.head_dim = default_head_dim();
    family.partial = Partial::kAlways;
    family.rotary_dim_honoured = true;
    family.alpha_honoured = true;
    return family;
  }();
  return kUnknown;
}

const Family& unknown_mla_family() {
  static const Family kUnknown = [] {
    Family family = unknown_family();
    family.pairing = Pairing::kInterleaved;
    family.interleave_key = "rope_interleave";
    family.head_dim = {"qk_rope_head_dim"};
    family.partial = Partial::kNever;
    family.softmax_correction = true;
    return family;
  }();
  return kUnknown;
}

}  // namespace rotary::internal
