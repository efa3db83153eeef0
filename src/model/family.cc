// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

#include "model/family.h"

#include <algorithm>
#include <mutex>

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

/// How each row starts, so that it is found without being parsed.
constexpr std::string_view kRowStart = R"({"model_type": ")";

constexpr bool every_row_starts_with_its_model_type() {
  for (const std::string_view row : kRows) {
    if (!row.starts_with(kRowStart)) return false;
  }
  return true;
}
static_assert(every_row_starts_with_its_model_type());

std::string_view model_type_of_row(std::string_view row) {
  row.remove_prefix(kRowStart.size());
  return row.substr(0, row.find('"'));
}

/// A family, and the version of transformers before the newest that computes it; empty: the newest.
struct Row {
  Family family;
  std::string version;
};

/// The rows of one model type, parsed when they are first asked for: to parse all of them takes ten
/// times as long as to resolve a config.
const std::vector<Row>& rows_of(std::string_view model_type) {
  static std::mutex mutex;
  static std::map<std::string, std::vector<Row>, std::less<>> parsed;
  const std::scoped_lock lock(mutex);
  if (const auto found = parsed.find(model_type); found != parsed.end()) return found->second;
  std::vector<Row> rows;
  for (const std::string_view line : kRows) {
    if (model_type_of_row(line) != model_type) continue;
    const Json json = parse_json(line, "families.inc");
    Row row{.family = parse_row(json), .version = text(json, "transformers")};
    for (const Row& other : rows) {
      if (other.version == row.version) reject("[families] two rows for ", model_type);
    }
    rows.push_back(std::move(row));
  }
  if (rows.empty()) {  // not kept: model types of configs are not ours to count
    static const std::vector<Row> kNone;
    return kNone;
  }
  return parsed.emplace(model_type, std::move(rows)).first->second;
}

}  // namespace

std::vector<std::string> family_names() {
  std::vector<std::string> names;
  for (const std::string_view row : kRows) names.emplace_back(model_type_of_row(row));
  std::sort(names.begin(), names.end());
  names.erase(std::unique(names.begin(), names.end()), names.end());
  return names;
}

const Family* find_family(std::string_view model_type, std::string_view version) {
  const Family* newest = nullptr;
  for (const Row& row : rows_of(model_type)) {
    if (row.version.empty()) {
      newest = &row.family;
    } else if (row.version == version) {
      return &row.family;
    }
  }
  return newest;
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
