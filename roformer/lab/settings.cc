// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

#include "roformer/lab/settings.h"

#include <algorithm>
#include <cmath>
#include <iterator>

#include "io/json_file.h"
#include "rotary/error.h"
#include "support/message.h"
#include "support/nearest.h"

namespace rotary::roformer::lab {
namespace {

using internal::Json;

bool has_names(const Json& list) {
  return list.is_array() && !list.empty() &&
         std::ranges::all_of(list.elements(), [](const Json& one) { return one.contains("name"); });
}

Json merge_lists(const Json& before, const Json& change) {
  std::vector<Json> all = before.elements();
  for (const Json& one : change.elements()) {
    const auto known = std::ranges::find_if(
        all, [&one](const Json& other) { return other.at("name") == one.at("name"); });
    if (known == all.end()) {
      all.push_back(one);
    } else {
      known->update(one);
    }
  }
  return all;
}

/// Entries without their numbers of seeds, which decide how many units there are, but no result.
Json without_seeds(const Json& value) {
  if (!has_names(value)) return value;
  Json list = Json::array();
  for (Json entry : value.elements()) {
    entry.take("seeds");
    list.push_back(std::move(entry));
  }
  return list;
}

[[noreturn]] void fail_key(const std::string& file, std::string_view key, const std::string& what) {
  throw IoError(file, IoError::kNoOffset, internal::concat(key, ": ", what));
}

/// Settings with the keys of a RoFormer config, which the lab checks; others have the keys of the
/// defaults.
bool is_model(std::string_view key) { return key == "model" || key == "linear_model"; }

/// `path` names `settings` in errors: "", or "training."
void merge_key(Json& settings, const std::string& path, std::string_view key, const Json& change,
               const std::string& file) {
  const std::string name = internal::concat(path, key);
  const Json* before = settings.find(key);
  if (before == nullptr) {
    std::vector<std::string_view> known;
    for (const auto& member : settings.members()) known.push_back(member.key);
    const std::string_view near = internal::nearest(key, known);
    fail_key(file, name,
             near.empty() ? "no setting of this lab"
                          : internal::concat("no setting of this lab; perhaps ", near));
  }
  const bool same_type = before->type_name() == change.type_name() || before->is_null();
  if (!same_type) {
    fail_key(file, name,
             internal::concat("must be ", before->type_name(), ", got ", change.excerpt()));
  }
  if (before->is_object() && is_model(key)) {
    settings[key].update(change);
  } else if (before->is_object()) {
    for (const auto& member : change.members()) {
      merge_key(settings[key], name + ".", member.key, member.value, file);
    }
  } else if (has_names(*before) && has_names(change)) {
    settings[key] = merge_lists(*before, change);
  } else {
    settings[key] = change;
  }
}

}  // namespace

Json merge_settings(const Json& defaults, const std::filesystem::path& config) {
  Json settings = defaults;
  if (config.empty()) return settings;
  const Json changes = internal::read_json_file(config);
  if (!changes.is_object()) {
    throw IoError(config.string(), IoError::kNoOffset, "must be a JSON object of settings");
  }
  for (const auto& [key, change] : changes.members()) {
    merge_key(settings, "", key, change, config.string());
  }
  return settings;
}

std::string difference(const Json& there, const Json& here) {
  const Json none;
  for (const auto& [key, value] : here.members()) {
    const Json* other = there.find(key);
    if (other == nullptr) other = &none;
    if (without_seeds(*other) != without_seeds(value)) {
      return internal::concat(key, ": ", other->excerpt(), " there, ", value.excerpt(), " here");
    }
  }
  for (const auto& [key, value] : there.members()) {
    if (!here.contains(key)) return internal::concat(key, ": ", value.excerpt(), " there only");
  }
  return {};
}

Json with_entries_of(const Json& there, const Json& here, const std::vector<std::string>& names) {
  const auto is_named = [&names](const Json& entry) {
    const Json& name = entry.at("name");
    return name.is_string() && std::ranges::find(names, name.as_string()) != names.end();
  };
  Json merged = there;
  for (const auto& [key, list] : here.members()) {
    const Json* before = there.find(key);
    if (before == nullptr || !has_names(*before) || !has_names(list)) continue;
    std::vector<Json> old = before->elements();
    std::erase_if(old, is_named);
    std::vector<Json> all;
    for (const Json& entry : list.elements()) {
      const auto known = std::ranges::find_if(
          old, [&](const Json& other) { return other.at("name") == entry.at("name"); });
      if (is_named(entry)) {
        all.push_back(entry);
      } else if (known != old.end()) {
        all.push_back(*known);
        old.erase(known);
      }
    }
    std::ranges::move(old, std::back_inserter(all));
    merged[key] = all;
  }
  return merged;
}

// ---- Settings -----------------------------------------------------------------------------------

void Settings::fail(std::string_view key, std::string_view rule, const Json& value) {
  internal::reject("[lab] ", key, " must be ", rule, ", got ", value.excerpt());
}

const Json& Settings::at(std::string_view key) const {
  const Json* value = json_.find(key);
  if (value == nullptr) internal::reject("[lab] no setting ", key);
  return *value;
}

std::int64_t Settings::integer(std::string_view key, std::int64_t least) const {
  const Json& value = at(key);
  if (!value.is_int64() || value.as_int64() < least) {
    fail(key, internal::concat("an integer of at least ", least), value);
  }
  return value.as_int64();
}

double Settings::number(std::string_view key) const {
  const Json& value = at(key);
  if (!value.is_number() || !(value.as_double() >= 0.0)) fail(key, "a number from 0 on", value);
  return value.as_double();
}

std::string Settings::text(std::string_view key) const {
  const Json& value = at(key);
  if (!value.is_string()) fail(key, "a text", value);
  return value.as_string();
}

std::vector<std::int64_t> Settings::integers(std::string_view key) const {
  const Json& value = at(key);
  std::vector<std::int64_t> all;
  if (!value.is_array()) fail(key, "a list of integers", value);
  for (const Json& one : value.elements()) {
    if (!one.is_int64() || one.as_int64() < 1) fail(key, "a list of positive integers", value);
    all.push_back(one.as_int64());
  }
  return all;
}

std::vector<double> Settings::numbers(std::string_view key) const {
  const Json& value = at(key);
  std::vector<double> all;
  if (!value.is_array()) fail(key, "a list of numbers", value);
  for (const Json& one : value.elements()) {
    if (!one.is_number()) fail(key, "a list of numbers", value);
    all.push_back(one.as_double());
  }
  return all;
}

std::vector<Json> Settings::list(std::string_view key) const {
  const Json& value = at(key);
  if (!value.is_array()) fail(key, "a list of objects", value);
  for (const Json& one : value.elements()) {
    const Json* name = one.find("name");
    if (name == nullptr || !name->is_string()) fail(key, "a list of objects with names", value);
  }
  return value.elements();
}

double encoding_rate_of(const Json& entry) {
  const Json* rate = entry.find("encoding_rate");
  if (rate == nullptr) return 1.0;
  if (!rate->is_number() || !(rate->as_double() > 0.0)) {
    internal::reject("[lab] encoding_rate must be a positive number, got ", rate->excerpt());
  }
  return rate->as_double();
}

double encoding_rate_of(const Json& entry, const Json& model) {
  return encoding_rate_of(entry.contains("encoding_rate") ? entry : model);
}

void check_keys(const Json& entry, const std::vector<std::string_view>& known) {
  check_keys(entry, entry.at("name").as_string(), known);
}

void check_keys(const Json& object, const std::string& name,
                const std::vector<std::string_view>& known) {
  for (const auto& [key, value] : object.members()) {
    if (std::ranges::find(known, std::string_view(key)) != known.end()) continue;
    const std::string_view near = internal::nearest(key, known);
    internal::reject("[lab] ", name, ": no key ", key, " in this entry",
                     near.empty() ? "" : internal::concat("; perhaps ", near));
  }
}

Config model_config(const std::vector<Json>& objects, const std::string& source) {
  Json all = Json::object();
  for (const Json& object : objects) all.update(object);
  all.take("name");
  all.take("seeds");
  all.take("encoding_rate");
  Config config = config_from_json(std::move(all), source);
  const Json unknown = internal::parse_json(config.other, source);
  if (!unknown.empty()) {
    throw IoError(source, IoError::kNoOffset,
                  unknown.members().front().key + ": no key of a RoFormer config");
  }
  return config;
}

Config model_config(std::vector<Json> objects, Task task, const std::string& source) {
  objects.push_back({{"architectures", Json::Array{architecture_of(task)}}});
  return model_config(objects, source);
}

}  // namespace rotary::roformer::lab
