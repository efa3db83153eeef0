// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

#include "model/config_warnings.h"

#include <algorithm>
#include <array>
#include <string_view>

#include "support/message.h"
#include "support/nearest.h"
#include "support/quote.h"

namespace rotary::internal {
namespace {

/// Keys that imply a rope.
constexpr std::array<std::string_view, 13> kRopeKeys = {
    "rope_parameters", "rope_scaling",         "rope_theta",        "rotary_emb_base",
    "rotary_dim",      "rotary_pct",           "rope_pct",          "partial_rotary_factor",
    "rope_type",       "rope_local_base_freq", "global_rope_theta", "mrope_section",
    "rope_base"};

/// Further keys that are read, or that do not affect the angles.
constexpr std::array<std::string_view, 27> kOtherKeys = {"rotary_emb_fraction",
                                                         "rotary_percentage",
                                                         "rotary_embedding_base",
                                                         "rope_ratio",
                                                         "rope_interleave",
                                                         "local_rope_theta",
                                                         "compress_rope_theta",
                                                         "swa_rope_theta",
                                                         "layer_rope_theta",
                                                         "no_rope_layers",
                                                         "no_rope_layer_interval",
                                                         "partial_rotary_factors",
                                                         "qk_rope_head_dim",
                                                         "xdrope_section",
                                                         "memory_attention_rope_theta",
                                                         "rotary_value",
                                                         "use_rope",
                                                         "use_rotary",
                                                         "use_mem_rope",
                                                         "rotary",
                                                         "rope",
                                                         "memory_attention_rope_feat_sizes",
                                                         "memory_attention_rope_dropout",
                                                         "memory_attention_rope_k_sizes",
                                                         "rotary_emb_interleaved",
                                                         "rope_context",
                                                         "use_rotary_embedding"};

bool looks_like_rope_key(std::string_view key) {
  constexpr std::array<std::string_view, 4> kSubstrings = {"rope", "rotary", "dynamic_ntk",
                                                           "position_encoding"};
  return std::any_of(kSubstrings.begin(), kSubstrings.end(), [key](std::string_view substring) {
    return key.find(substring) != std::string_view::npos;
  });
}

void warn_about_unread_keys(const Json& config, std::vector<std::string>& warnings) {
  std::vector<std::string_view> known(kRopeKeys.begin(), kRopeKeys.end());
  known.insert(known.end(), kOtherKeys.begin(), kOtherKeys.end());
  constexpr std::size_t kMaxListed = 16;
  std::size_t unread = 0;
  for (const auto& [key, value] : config.members()) {
    const bool off = value.is_null() || value == false;
    if (off || !looks_like_rope_key(key)) continue;
    if (std::find(known.begin(), known.end(), key) != known.end()) continue;
    if (++unread > kMaxListed) continue;
    const std::string_view near = nearest(key, known);
    warnings.push_back(concat("key ", quote(key), " is not read",
                              near.empty() ? "" : concat("; did you mean ", quote(near), "?")));
  }
  if (unread > kMaxListed) {
    warnings.push_back(concat(unread - kMaxListed, " more keys about rotation are not read"));
  }
}

/// Warns if position_embedding_type or alibi names another position encoding.
void warn_about_other_encodings(const Lookup& lookup, std::vector<std::string>& warnings) {
  for (const char* key : {"position_embedding_type", "position_embeddings_type"}) {
    const Found found = lookup.in_file(key);
    if (!found || !found.value->is_string()) continue;
    const auto type = found.value->as_string();
    if (type.find("rope") != std::string::npos || type.starts_with("rot")) continue;
    warnings.push_back(concat(key, " is ", quote(type), ": this checkpoint may not rotate at all"));
  }
  if (const Found alibi = lookup.in_file("alibi"); alibi && *alibi.value == true) {
    warnings.emplace_back("alibi is true: this checkpoint does not rotate");
  }
}

}  // namespace

bool mentions_rope(const Json& config) {
  return std::any_of(kRopeKeys.begin(), kRopeKeys.end(), [&config](std::string_view key) {
    const Json* found = config.find(key);
    return found != nullptr && !found->is_null();
  });
}

void add_config_warnings(const Lookup& lookup, std::vector<std::string>& warnings) {
  const Json& config = lookup.config();
  const Json* old_form = config.find("rope_scaling");
  const Json* new_form = config.find("rope_parameters");
  const bool both =
      old_form != nullptr && !old_form->empty() && new_form != nullptr && !new_form->empty();
  if (both && *old_form != *new_form) {
    warnings.emplace_back("rope_scaling and rope_parameters differ; rope_scaling is used");
  }
  warn_about_unread_keys(config, warnings);
  warn_about_other_encodings(lookup, warnings);
  if (const Found tuning = lookup.in_file("attn_temperature_tuning");
      tuning && *tuning.value != false && *tuning.value != 0) {
    warnings.emplace_back(
        "attn_temperature_tuning: attention also scales queries by position, outside the rotation");
  }
}

}  // namespace rotary::internal
