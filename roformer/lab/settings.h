// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

/// Settings of a lab: a JSON object with everything that decides its numbers. A lab has defaults;
/// a config file (--config) changes them:
///
///   {"steps": 200, "model": {"hidden_size": 128},
///    "encodings": [{"name": "rope-500k", "position_encoding": "rope", "rope_theta": 5e5}]}
///
/// An object is changed key by key, and has no other keys than the defaults; a model's are those of
/// a RoFormer config. A list of objects with names (encodings, recipes) gets the new
/// ones, and an entry with a known name changes that one. Anything else is replaced.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "json/json.h"
#include "roformer/model/config.h"

namespace rotary::roformer::lab {

/// The defaults, changed by the config file; `config` empty: the defaults. Throws IoError that
/// names the file and the key: one that the defaults do not have, or a value of another type.
internal::Json merge_settings(const internal::Json& defaults, const std::filesystem::path& config);

/// The key by which two settings differ, with both values: "steps: 200 there, 100 here"; empty if
/// they are equal. Numbers of seeds do not count: a folder may get more of them.
std::string difference(const internal::Json& there, const internal::Json& here);

/// `there` with the entries of these names, in lists of named objects, as they are in `here`.
internal::Json with_entries_of(const internal::Json& there, const internal::Json& here,
                               const std::vector<std::string>& names);

/// Typed access. Throws std::invalid_argument that names the key.
class Settings {
 public:
  explicit Settings(internal::Json json) : json_(std::move(json)) {}

  const internal::Json& json() const noexcept { return json_; }
  const internal::Json& at(std::string_view key) const;
  /// Must be at least `least`.
  std::int64_t integer(std::string_view key, std::int64_t least = 0) const;
  /// Must be finite and not negative.
  double number(std::string_view key) const;
  std::string text(std::string_view key) const;
  std::vector<std::int64_t> integers(std::string_view key) const;
  std::vector<double> numbers(std::string_view key) const;
  /// The objects of a list, each with a name.
  std::vector<internal::Json> list(std::string_view key) const;

 private:
  [[noreturn]] static void fail(std::string_view key, std::string_view rule,
                                const internal::Json& value);

  internal::Json json_;
};

/// The key `encoding_rate` of an entry: the factor of the learning rate of the encoding's own
/// parameters; 1 without it. Throws std::invalid_argument unless it is positive.
double encoding_rate_of(const internal::Json& entry);
/// The same; an entry without the key has that of the setting `model`.
double encoding_rate_of(const internal::Json& entry, const internal::Json& model);

/// Throws std::invalid_argument that names the entry and the key, unless an entry has these keys
/// alone. For entries that are no model configs.
void check_keys(const internal::Json& entry, const std::vector<std::string_view>& known);
/// The same for an object of this name.
void check_keys(const internal::Json& object, const std::string& name,
                const std::vector<std::string_view>& known);

/// A model's config: the keys of each object in turn, over the defaults of Config. `name`, `seeds`
/// and `encoding_rate` are not keys of it. Throws IoError that names `source` and the key.
Config model_config(const std::vector<internal::Json>& objects, const std::string& source);
/// The same for a task, which decides what else is allowed.
Config model_config(std::vector<internal::Json> objects, Task task, const std::string& source);

}  // namespace rotary::roformer::lab
