// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

#include "model/family.h"

#include "support/message.h"

namespace rotary::internal {
namespace {

constexpr std::string_view kRows[] = {
#include "model/families.inc"
};

const std::vector<std::string>& usual_head_dim() {
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

AxisMap axis_map_of(const Json& row) {
  const std::string axes = row.value("axes", "t");
  if (axes == "t") return OneAxis{};
  const std::string order = row.value("order", "");
  if (order == "blocks" || order == "alternating") {
    return Axial{
        .axes = static_cast<std::int64_t>(axes.size()),
        .order = order == "blocks" ? AxialOrder::kBlocks : AxialOrder::kAlternating,
        .ladder = row.value("ladder", "") == "strided" ? AxialLadder::kStrided : AxialLadder::kOwn,
        .axis_order = row.value("axis_order", std::vector<std::int64_t>{})};
  }
  Mrope map{.sections = row.at("sections").get<std::vector<std::int64_t>>()};
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
  family.model_type = row.at("model_type").get<std::string>();
  family.parts = row.value("parts", std::map<std::string, std::string>{});
  family.unsupported = row.value("unsupported", "");
  family.has_rope = row.contains("pairing");
  if (!family.has_rope) return family;
  family.pairing = pairing_of(row.at("pairing").get<std::string>());
  family.output_pairing = pairing_of(row.value("writes", row.at("pairing").get<std::string>()));
  family.interleave_key = row.value("interleave_key", "");
  family.has_indexer = row.value("indexer", "") == "half";
  family.trailing = row.value("slice", "leading") == "trailing";
  family.turn = row.value("turn", "forward") == "backward" ? Turn::kBackward : Turn::kForward;
  family.axes = axis_names(row.value("axes", "t"));
  family.axis_map = axis_map_of(row);
  family.head_dim = row.value("head_dim", usual_head_dim());
  family.partial = partial_of(row.value("partial", "scaled"));
  family.rotary_dim_honoured = row.value("rotary_dim", "ignored") == "honoured";
  family.softmax_correction = row.value("softmax", "") == "mscale_all_dim";
  family.alpha_honoured = row.value("alpha", "ignored") == "honoured";
  if (row.contains("attention_factor")) {
    family.attention_factor = row.at("attention_factor").get<double>();
  }
  family.gain = row.value("gain", 1.0);
  family.type_aliases = row.value("types", std::map<std::string, std::string>{});
  family.rotating_layers = row.value("only", "");
  const Json layers = row.value("layers", Json::object());
  for (const auto& [name, layer] : layers.items()) {
    family.layers[name] = {.theta_key = layer.value("theta", ""),
                           .scaled = layer.value("scaling", "applies") == "applies"};
  }
  family.defaults = row.value("defaults", Json::object());
  return family;
}

std::map<std::string, Family, std::less<>> parse_rows() {
  std::map<std::string, Family, std::less<>> families;
  for (const std::string_view text : kRows) {
    Family family = parse_row(Json::parse(text));
    const std::string name = family.model_type;
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

const Family* find_family(std::string_view model_type) {
  const auto found = all_families().find(model_type);
  return found == all_families().end() ? nullptr : &found->second;
}

const Family& unknown_family() {
  static const Family kUnknown = [] {
    Family family;
    family.has_rope = true;
    family.head_dim = usual_head_dim();
    family.partial = Partial::kAlways;
    family.rotary_dim_honoured = true;
    family.alpha_honoured = true;
    return family;
  }();
  return kUnknown;
}

const Family& unknown_latent_family() {
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
