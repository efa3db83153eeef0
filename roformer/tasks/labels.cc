// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

#include "roformer/tasks/labels.h"

#include <nlohmann/json.hpp>

namespace rotary::roformer {

std::vector<std::string> label_names(const Config& config) {
  const auto json = nlohmann::json::parse(config.other, nullptr, false);
  const auto labels = json.is_object() ? json.find("id2label") : json.end();
  if (!json.is_object() || labels == json.end() || !labels->is_object()) return {};
  std::vector<std::string> names;
  bool own = false;
  for (std::size_t i = 0; i < labels->size(); ++i) {
    const auto name = labels->find(std::to_string(i));
    if (name == labels->end() || !name->is_string()) return {};
    names.push_back(name->get<std::string>());
    own = own || names.back() != "LABEL_" + std::to_string(i);
  }
  return own ? names : std::vector<std::string>();
}

void set_label_names(Config& config, std::span<const std::string> names) {
  auto json = nlohmann::ordered_json::parse(config.other);
  json["id2label"] = nlohmann::ordered_json::object();
  json["label2id"] = nlohmann::ordered_json::object();
  for (std::size_t i = 0; i < names.size(); ++i) {
    json["id2label"][std::to_string(i)] = names[i];
    json["label2id"][names[i]] = i;
  }
  config.other = json.dump();
  config.num_labels = static_cast<std::int64_t>(names.size());
}

}  // namespace rotary::roformer
