// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

#include <algorithm>
#include <array>
#include <map>
#include <set>

#include "model/scaling.h"
#include "support/message.h"
#include "support/nearest.h"
#include "support/quote.h"

namespace rotary::internal {
namespace {

/// Current names of the rope types, with the keys that each one reads.
const std::map<std::string_view, std::set<std::string_view>>& types() {
  static const std::map<std::string_view, std::set<std::string_view>> kTypes = {
      {"default", {}},
      {"axial", {}},
      {"linear", {"factor"}},
      {"ntk", {"factor", "mixed_b"}},
      {"ntk_alpha", {"alpha"}},
      {"dynamic", {"factor", "alpha", "original_max_position_embeddings"}},
      {"yarn",
       {"factor", "original_max_position_embeddings", "beta_fast", "beta_slow", "truncate",
        "attention_factor", "mscale", "mscale_all_dim", "softmax_correction"}},
      {"yarn_paper", {"factor", "original_max_position_embeddings", "alpha", "beta"}},
      {"yarn_walkthrough",
       {"factor", "original_max_position_embeddings", "beta_fast", "beta_slow", "ramp"}},
      {"longrope",
       {"short_factor", "long_factor", "original_max_position_embeddings", "factor",
        "attention_factor", "short_mscale", "long_mscale"}},
      {"llama3",
       {"factor", "original_max_position_embeddings", "low_freq_factor", "high_freq_factor"}},
      {"proportional", {"factor", "fraction"}},
      {"divisors", {"divisor"}},
      {"learnable", {"log_gain"}},
      {"receptive_field", {"alpha", "rho"}},
      {"xpos", {"scale_base", "gamma", "origin"}},
      {"resonance", {}},
  };
  return kTypes;
}

/// Keys of all types, read here or by attention code.
constexpr std::array<std::string_view, 20> kCommonKeys = {
    "rope_type",         "type",
    "rope_theta",        "partial_rotary_factor",
    "mrope_section",     "xdrope_section",
    "mrope_interleaved", "interleaved",
    "finetuned",         "max_position_embeddings",
    "rope_dim",          "llama_4_scaling_beta",
    "resonance",         "axis_map",
    "direction",         "gain",
    "ladder_dim",        "wavelengths",
    "rotary_dim",        "theta"};

/// The names of recipes (rotary/recipe_json.h) where configs have others.
std::string_view recipe_key(std::string_view key) {
  if (key == "rope_theta") return "theta";
  if (key == "original_max_position_embeddings") return "original_context";
  return {};
}

/// The current name for older and vendor-specific names.
std::string current_type(const std::string& name) {
  static const std::map<std::string_view, std::string_view> kAliases = {
      {"su", "longrope"},  {"mrope", "default"}, {"deepseek_yarn", "yarn"}, {"mllama4", "llama3"},
      {"none", "default"}, {"llama4", "llama3"}, {"xdrope", "dynamic"},
  };
  const auto found = kAliases.find(name);
  return found == kAliases.end() ? name : std::string(found->second);
}

std::string read_type(const Json* dict, const Lookup& lookup) {
  if (dict == nullptr) return "default";
  for (const char* key : {"rope_type", "type"}) {
    const Json* found = dict->find(key);
    if (found == nullptr || found->is_null()) continue;
    if (!found->is_string()) {
      reject("[Model] ", lookup.source(), ": ", key, " must be a string, got ",
             quote(found->dump()));
    }
    const std::string& name = found->as_string();
    const auto own = lookup.family().type_aliases.find(name);
    return own != lookup.family().type_aliases.end() ? own->second : current_type(name);
  }
  return "default";
}

}  // namespace

RopeDict::RopeDict(const Json* dict, bool assumed, const Lookup& lookup)
    : dict_(dict),
      assumed_(assumed),
      source_(lookup.source()),
      model_type_(lookup.model_type()),
      type_(read_type(dict, lookup)) {
  if (types().contains(type_)) return;
  std::string known;
  for (const auto& [name, keys] : types()) known += (known.empty() ? "" : ", ") + std::string(name);
  reject("[Model] ", source_, ": unknown rope_type ", quote(type_), "; known are ", known);
}

const Json* RopeDict::find(std::string_view key) const {
  if (dict_ == nullptr) return nullptr;
  const Json* found = dict_->find(key);
  if (found != nullptr && !found->is_null()) return found;
  found = dict_->find(recipe_key(key));
  return found == nullptr || found->is_null() ? nullptr : found;
}

std::optional<double> RopeDict::number(std::string_view key) const {
  const Json* value = find(key);
  if (value == nullptr) return std::nullopt;
  return as_number(*value, key, source_);
}

std::optional<double> RopeDict::nonzero(std::string_view key) const {
  const std::optional<double> value = number(key);
  return value == 0.0 ? std::nullopt : value;
}

double RopeDict::required(std::string_view key) const {
  const std::optional<double> value = number(key);
  if (!value) {
    reject("[Model] ", source_, ": rope_type ", quote(type_), " needs the key ", quote(key));
  }
  return *value;
}

bool RopeDict::flag(std::string_view key) const {
  const Json* value = find(key);
  if (value == nullptr) return false;
  if (!value->is_boolean()) {
    reject("[Model] ", source_, ": ", key, " must be true or false, got ", quote(value->dump()));
  }
  return value->as_bool();
}

void RopeDict::report_ignored_keys(ModelRope& rope) const {
  if (!given()) return;
  std::vector<std::string_view> all_keys(kCommonKeys.begin(), kCommonKeys.end());
  for (const auto& [type, keys] : types())
    all_keys.insert(all_keys.end(), keys.begin(), keys.end());
  const std::set<std::string_view>& used = types().at(type_);
  for (const auto& [key, value] : dict_->members()) {
    const bool common = std::find(kCommonKeys.begin(), kCommonKeys.end(), key) != kCommonKeys.end();
    const bool original =
        key == "original_context" && used.contains("original_max_position_embeddings");
    if (common || original || used.contains(key) || value.is_null()) continue;
    rope.ignored_keys.push_back(key);
    if (std::find(all_keys.begin(), all_keys.end(), key) != all_keys.end()) {
      rope.warnings.push_back(
          concat("key ", quote(key), " is ignored: rope_type ", quote(type_), " does not use it"));
      continue;
    }
    const std::string_view near = nearest(key, all_keys);
    rope.warnings.push_back(
        concat("key ", quote(key), " is unknown and ignored",
               near.empty() ? "" : concat("; did you mean ", quote(near), "?")));
  }
}

std::string RopeDict::assumed_line() const {
  if (dict_ == nullptr || !assumed_ || type_ == "default" || type_ == "axial") return {};
  return concat("rope_type = ", quote(type_), " with its parameters (the default of model_type ",
                quote(model_type_), ")");
}

}  // namespace rotary::internal
