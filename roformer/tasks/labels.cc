// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

#include "roformer/tasks/labels.h"

#include <charconv>
#include <utility>

#include "json/json.h"

namespace rotary::roformer {
namespace {

using internal::Json;

/// The index that a key of id2label spells; -1 if it is none.
std::int64_t index_of(const std::string& key) {
  std::int64_t index = -1;
  const auto [end, error] = std::from_chars(key.data(), key.data() + key.size(), index);
  const bool is_index =
      error == std::errc() && end == key.data() + key.size() && std::to_string(index) == key;
  return is_index ? index : -1;
}

}  // namespace

std::vector<std::string> label_names(const Config& config) {
  const Json json = internal::parse_json(config.other, "config");
  const Json* labels = json.find("id2label");
  if (labels == nullptr || !labels->is_object()) return {};
  const auto count = static_cast<std::int64_t>(labels->size());
  std::vector<std::string> names(labels->size());
  bool own = false;
  for (const auto& [key, name] : labels->members()) {
    const std::int64_t index = index_of(key);
    if (index < 0 || index >= count || !name.is_string()) return {};
    names[static_cast<std::size_t>(index)] = name.as_string();
    own = own || name != "LABEL_" + key;
  }
  return own ? names : std::vector<std::string>();
}

void set_label_names(Config& config, std::span<const std::string> names) {
  Json json = internal::parse_json(config.other, "config");
  Json::Object by_index;
  Json::Object by_name;
  for (std::size_t i = 0; i < names.size(); ++i) {
    by_index.push_back({std::to_string(i), names[i]});
    by_name.push_back({names[i], i});
  }
  json["id2label"] = Json::object(std::move(by_index));
  json["label2id"] = Json::object(std::move(by_name));
  json.take("problem_type");
  config.other = json.dump();
  config.num_labels = static_cast<std::int64_t>(names.size());
}

bool predicts_number(const Config& config) noexcept {
  return config.task == Task::kSequenceClassification && config.num_labels == 1;
}

void set_regression(Config& config) {
  Json json = internal::parse_json(config.other, "config");
  for (const char* key : {"id2label", "label2id"}) json.take(key);
  json["problem_type"] = "regression";
  config.other = json.dump();
  config.task = Task::kSequenceClassification;
  config.num_labels = 1;
}

}  // namespace rotary::roformer
