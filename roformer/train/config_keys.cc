// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

#include "roformer/train/config_keys.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <stdexcept>

#include "io/json_file.h"
#include "json/json.h"
#include "rotary/error.h"
#include "support/message.h"
#include "support/nearest.h"
#include "support/quote.h"

namespace rotary::roformer {
namespace {

using internal::Json;
using Strings = std::vector<std::string>;
using Stages = std::vector<Stage>;
using Key = BoundKey;
using Keys = std::span<const BoundKey>;

[[noreturn]] void refuse(const Key& key, std::string_view rule, const Json& got) {
  internal::reject(key.info.name, " must be ", rule, ", got ", got.excerpt());
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

void check_range(const Key& key, double value, const Json& json) {
  if (value >= key.rule.min && value <= key.rule.max) return;
  const std::string rule = std::isinf(key.rule.max)
                               ? internal::concat("at least ", key.rule.min)
                               : internal::concat("from ", key.rule.min, " to ", key.rule.max);
  refuse(key, rule, json);
}

void take(const Key& key, const Json& json, std::string& out) {
  const bool takes_object = key.info.name == "model" || key.info.kind == "JSON";
  if (takes_object && json.is_object()) {
    out = json.dump();
    return;
  }
  if (!json.is_string()) refuse(key, "a text", json);
  out = json.as_string();
  if (key.rule.words.empty()) return;
  for (std::string_view words = key.rule.words; !words.empty();) {
    const std::size_t end = std::min(words.find('|'), words.size());
    if (words.substr(0, end) == out) return;
    words.remove_prefix(std::min(end + 1, words.size()));
  }
  refuse(key, internal::concat("one of ", key.rule.words), json);
}
void take(const Key& key, const Json& json, Strings& out) {
  out.clear();
  for (const Json& item : json.is_array() ? json.elements() : Json::Array{json}) {
    if (!item.is_string()) {
      const bool paths = key.info.kind == "PATH...";
      refuse(key, paths ? "a path or a list of paths" : "a name or a list of names", json);
    }
    out.push_back(item.as_string());
  }
}
void take(const Key& key, const Json& json, std::int64_t& out) {
  if (!json.is_int64()) refuse(key, "a whole number", json);
  check_range(key, json.as_double(), json);
  out = json.as_int64();
}
void take(const Key& key, const Json& json, std::uint64_t& out) {
  if (!json.is_uint64()) refuse(key, "a whole number that is not negative", json);
  out = json.as_uint64();
}
void take(const Key& key, const Json& json, double& out) {
  if (!json.is_number()) refuse(key, "a number", json);
  check_range(key, json.as_double(), json);
  out = json.as_double();
}
void take(const Key& key, const Json& json, bool& out) {
  if (!json.is_boolean()) refuse(key, "true or false", json);
  out = json.as_bool();
}

constexpr std::string_view kStageRule =
    "\"LENGTHxROWSxSTEPS, ...\" or [{\"length\": N, \"batch\": N, \"steps\": N}, ...]";

Stage stage_from_text(const Key& key, std::string_view text, const Json& json) {
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

Stage stage_from_json(const Key& key, const Json& item, const Json& json) {
  if (item.is_string()) return stage_from_text(key, item.as_string(), json);
  if (!item.is_object()) refuse(key, kStageRule, json);
  Stage stage;
  for (const auto& [name, value] : item.members()) {
    std::int64_t* part = name == "length"  ? &stage.length
                         : name == "batch" ? &stage.batch
                         : name == "steps" ? &stage.steps
                                           : nullptr;
    if (part == nullptr || !value.is_int64()) refuse(key, kStageRule, json);
    *part = value.as_int64();
  }
  return stage;
}

Json split_list(std::string_view text) {
  Json items = Json::array();
  while (true) {
    const std::size_t comma = text.find(',');
    std::string item(text.substr(0, comma));
    std::erase(item, ' ');
    items.push_back(item);
    if (comma == std::string_view::npos) return items;
    text.remove_prefix(comma + 1);
  }
}

void take(const Key& key, const Json& json, Stages& out) {
  const Json items = json.is_string() ? split_list(json.as_string()) : json;
  if (!items.is_array() || items.empty()) refuse(key, kStageRule, json);
  out.clear();
  for (const Json& item : items.elements()) {
    const Stage stage = stage_from_json(key, item, json);
    if (stage.length < 3 || stage.batch < 1 || stage.steps < 1) {
      refuse(key, "of lengths from 3 on, and positive rows and steps", json);
    }
    out.push_back(stage);
  }
}

void set(const Key& key, const Json& json) {
  std::visit([&](auto* value) { take(key, json, *value); }, key.value);
}

Json give(const std::string& value) {
  return value.starts_with('{') ? internal::parse_json(value, "model") : Json(value);
}
Json give(const Stages& stages) {
  Json json = Json::array();
  for (const Stage& stage : stages) {
    json.push_back({{"length", stage.length}, {"batch", stage.batch}, {"steps", stage.steps}});
  }
  return json;
}
template <typename T>
Json give(const T& value) {
  return value;
}

/// A flag's text as JSON of the type of its key.
Json json_of(const Key& key, std::string_view text) {
  const bool is_text =
      std::holds_alternative<std::string*>(key.value) || std::holds_alternative<Stages*>(key.value);
  if (std::holds_alternative<bool*>(key.value)) {
    if (text == "on" || text == "true") return true;
    if (text == "off" || text == "false") return false;
    internal::reject(key.info.name, " must be on or off, got ", internal::quote(text));
  }
  if (is_text && !text.starts_with('{')) return std::string(text);
  const Json json = internal::try_parse_json(text);
  return json.is_null() ? Json(text) : json;
}

}  // namespace

void read_config_file(Keys keys, const std::filesystem::path& path) {
  const Json json = internal::read_json_file(path);
  try {
    if (!json.is_object()) internal::reject("must be a JSON object");
    for (const auto& [name, value] : json.members()) set(find_key(keys, name), value);
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
        const Json json = give(*value);
        if (json.is_boolean()) return std::string(json.as_bool() ? "on" : "off");
        if (json.is_string()) return json.as_string();
        return json.empty() ? std::string() : json.dump();
      },
      key.value);
}

std::string_view other_key(Keys a, Keys b, std::span<const std::string_view> free) {
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (std::ranges::find(free, a[i].info.name) != free.end()) continue;
    const bool same = std::visit(
        [&](auto* value) { return *value == *std::get<decltype(value)>(b[i].value); }, a[i].value);
    if (!same) return a[i].info.name;
  }
  return {};
}

std::string to_json(Keys keys) {
  Json json;
  for (const Key& key : keys) {
    std::visit([&](const auto* value) { json[std::string(key.info.name)] = give(*value); },
               key.value);
  }
  return json.dump_lines();
}

}  // namespace rotary::roformer
