// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

#include "roformer/train/config_keys.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <stdexcept>

#include "rotary/error.h"
#include "support/message.h"
#include "support/nearest.h"
#include "support/quote.h"

namespace rotary::roformer {
namespace {

using RunJson = nlohmann::ordered_json;
using Strings = std::vector<std::string>;
using Stages = std::vector<Stage>;
using Key = BoundKey;
using Keys = std::span<const BoundKey>;

[[noreturn]] void refuse(const Key& key, std::string_view rule, const RunJson& got) {
  internal::reject(key.info.name, " must be ", rule, ", got ", got.dump());
}

const Key& find_key(Keys keys, std::string_view name) {
  const auto at = std::ranges::find(keys, name, [](const Key& key) { return key.info.name; });
  if (at != keys.end()) return *at;
  std::vector<std::string_view> names;
  for (const Key& key : keys) names.push_back(key.info.name);
  const std::string_view near = internal::nearest(name, names);
  internal::reject("there is no key ", internal::quote(name),
                   near.empty() ? "" : "; did you mean " + internal::quote(near) + "?");
}

// ---- One function per type: from JSON, and to it ------------------------------------------------

void check_range(const Key& key, double value, const RunJson& json) {
  if (value >= key.rule.min && value <= key.rule.max) return;
  const std::string rule = std::isinf(key.rule.max)
                               ? internal::concat("at least ", key.rule.min)
                               : internal::concat("from ", key.rule.min, " to ", key.rule.max);
  refuse(key, rule, json);
}

void take(const Key& key, const RunJson& json, std::string& out) {
  // A model may be a JSON object.
  if (key.info.name == "model" && json.is_object()) {
    out = json.dump();
    return;
  }
  if (!json.is_string()) refuse(key, "a text", json);
  out = json.get<std::string>();
  if (key.rule.words.empty()) return;
  for (std::string_view words = key.rule.words; !words.empty();) {
    const std::size_t end = std::min(words.find('|'), words.size());
    if (words.substr(0, end) == out) return;
    words.remove_prefix(std::min(end + 1, words.size()));
  }
  refuse(key, internal::concat("one of ", key.rule.words), json);
}
void take(const Key& key, const RunJson& json, Strings& out) {
  out.clear();
  for (const RunJson& item : json.is_array() ? json : RunJson::array({json})) {
    if (!item.is_string()) refuse(key, "a path or a list of paths", json);
    out.push_back(item.get<std::string>());
  }
}
void take(const Key& key, const RunJson& json, std::int64_t& out) {
  if (!json.is_number_integer()) refuse(key, "a whole number", json);
  check_range(key, json.get<double>(), json);
  out = json.get<std::int64_t>();
}
void take(const Key& key, const RunJson& json, std::uint64_t& out) {
  if (!json.is_number_unsigned()) refuse(key, "a whole number that is not negative", json);
  out = json.get<std::uint64_t>();
}
void take(const Key& key, const RunJson& json, double& out) {
  if (!json.is_number()) refuse(key, "a number", json);
  check_range(key, json.get<double>(), json);
  out = json.get<double>();
}
void take(const Key& key, const RunJson& json, bool& out) {
  if (!json.is_boolean()) refuse(key, "true or false", json);
  out = json.get<bool>();
}

constexpr std::string_view kStageRule =
    "\"LENGTHxROWSxSTEPS, ...\" or [{\"length\": N, \"batch\": N, \"steps\": N}, ...]";

Stage stage_from_text(const Key& key, std::string_view text, const RunJson& json) {
  std::array<std::int64_t*, 3> parts{};
  Stage stage;
  parts = {&stage.length, &stage.batch, &stage.steps};
  const std::string copy(text);
  const char* at = copy.c_str();
  for (std::size_t i = 0; i < parts.size(); ++i) {
    char* end = nullptr;
    *parts[i] = std::strtoll(at, &end, 10);
    const char wanted = i + 1 < parts.size() ? 'x' : '\0';
    if (end == at || *end != wanted) refuse(key, kStageRule, json);
    at = end + 1;
  }
  return stage;
}

Stage stage_from_json(const Key& key, const RunJson& item, const RunJson& json) {
  if (item.is_string()) return stage_from_text(key, item.get<std::string>(), json);
  if (!item.is_object()) refuse(key, kStageRule, json);
  Stage stage;
  for (const auto& [name, value] : item.items()) {
    std::int64_t* part = name == "length"  ? &stage.length
                         : name == "batch" ? &stage.batch
                         : name == "steps" ? &stage.steps
                                           : nullptr;
    if (part == nullptr || !value.is_number_integer()) refuse(key, kStageRule, json);
    *part = value.get<std::int64_t>();
  }
  return stage;
}

RunJson split_list(std::string_view text) {
  RunJson items = RunJson::array();
  while (true) {
    const std::size_t comma = text.find(',');
    std::string item(text.substr(0, comma));
    std::erase(item, ' ');
    items.push_back(item);
    if (comma == std::string_view::npos) return items;
    text.remove_prefix(comma + 1);
  }
}

void take(const Key& key, const RunJson& json, Stages& out) {
  const RunJson items = json.is_string() ? split_list(json.get<std::string>()) : json;
  if (!items.is_array() || items.empty()) refuse(key, kStageRule, json);
  out.clear();
  for (const RunJson& item : items) {
    const Stage stage = stage_from_json(key, item, json);
    if (stage.length < 3 || stage.batch < 1 || stage.steps < 1) {
      refuse(key, "of lengths from 3 on, and positive rows and steps", json);
    }
    out.push_back(stage);
  }
}

void set(const Key& key, const RunJson& json) {
  std::visit([&](auto* value) { take(key, json, *value); }, key.value);
}

RunJson give(const std::string& value) {
  return value.starts_with('{') ? RunJson::parse(value) : RunJson(value);
}
RunJson give(const Stages& stages) {
  RunJson json = RunJson::array();
  for (const Stage& stage : stages) {
    json.push_back({{"length", stage.length}, {"batch", stage.batch}, {"steps", stage.steps}});
  }
  return json;
}
template <typename T>
RunJson give(const T& value) {
  return value;
}

/// A flag's text as JSON of the type of its key.
RunJson json_of(const Key& key, std::string_view text) {
  const bool is_text =
      std::holds_alternative<std::string*>(key.value) || std::holds_alternative<Stages*>(key.value);
  if (std::holds_alternative<bool*>(key.value)) {
    if (text == "on" || text == "true") return true;
    if (text == "off" || text == "false") return false;
    internal::reject(key.info.name, " must be on or off, got ", internal::quote(text));
  }
  if (is_text && !text.starts_with('{')) return std::string(text);
  const RunJson json = RunJson::parse(text, nullptr, /*allow_exceptions=*/false);
  return json.is_discarded() ? RunJson(std::string(text)) : json;
}

}  // namespace

void read_config_file(Keys keys, const std::filesystem::path& path) {
  std::ifstream in(path, std::ios::binary);
  const std::string text{std::istreambuf_iterator<char>(in), {}};
  if (!in) throw IoError(path.string(), IoError::kNoOffset, "cannot be read");
  try {
    const RunJson json = RunJson::parse(text);
    if (!json.is_object()) internal::reject("must be a JSON object");
    for (const auto& [name, value] : json.items()) set(find_key(keys, name), value);
  } catch (const nlohmann::json::exception& error) {
    throw IoError(path.string(), IoError::kNoOffset, error.what());
  } catch (const std::invalid_argument& error) {
    throw IoError(path.string(), IoError::kNoOffset, error.what());
  }
}

void set_from_text(Keys keys, std::string_view name, std::span<const std::string> values) {
  const Key& key = find_key(keys, name);
  if (std::holds_alternative<Strings*>(key.value)) {
    return set(key, Strings(values.begin(), values.end()));
  }
  if (values.size() != 1) internal::reject(name, " must have one value, got ", values.size());
  set(key, json_of(key, values.front()));
}

std::string to_text(const Key& key) {
  return std::visit(
      [](const auto* value) {
        const RunJson json = give(*value);
        if (json.is_boolean()) return std::string(json.get<bool>() ? "on" : "off");
        if (json.is_string()) return json.get<std::string>();
        return json.empty() ? std::string() : json.dump();
      },
      key.value);
}

std::string to_json(Keys keys) {
  RunJson json;
  for (const Key& key : keys) {
    std::visit([&](const auto* value) { json[std::string(key.info.name)] = give(*value); },
               key.value);
  }
  return json.dump(2) + "\n";
}

}  // namespace rotary::roformer
