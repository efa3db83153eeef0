// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// Key lookup in a config object, then in the defaults of its family.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "json/json.h"
#include "model/family.h"

namespace rotary::internal {

/// A value and where it was found.
struct Found {
  const Json* value = nullptr;
  std::string key;       // as spelled in the file
  bool assumed = false;  // a default of the family
  explicit operator bool() const noexcept { return value != nullptr; }
};

/// Knows the aliases of keys: "rope_theta" also finds rotary_emb_base, "hidden_size" also finds
/// n_embd. Null values count as absent.
class Lookup {
 public:
  Lookup(const Json& config, const Family& family, std::string model_type, std::string source)
      : config_(config),
        family_(family),
        model_type_(std::move(model_type)),
        source_(std::move(source)) {}

  /// Looks in the file only.
  Found in_file(std::string_view key) const;
  /// Looks in the file, then in the family's defaults.
  Found find(std::string_view key) const;

  /// The number of a key; none if absent. Throws std::invalid_argument with the key if the value is
  /// not a number. Adds a line to `assumed` for a default.
  std::optional<double> number(std::string_view key, std::vector<std::string>& assumed) const;
  std::optional<std::int64_t> integer(std::string_view key,
                                      std::vector<std::string>& assumed) const;

  /// head_dim by the family's rules; throws if none applies.
  std::int64_t head_dim(std::vector<std::string>& assumed) const;

  const Json& config() const noexcept { return config_; }
  const Family& family() const noexcept { return family_; }
  /// From the file, or implied by the composite config.
  const std::string& model_type() const noexcept { return model_type_; }
  const std::string& source() const noexcept { return source_; }

 private:
  std::optional<std::int64_t> evaluate(std::string_view rule,
                                       std::vector<std::string>& assumed) const;

  const Json& config_;
  const Family& family_;
  std::string model_type_;
  std::string source_;
};

/// A finite number, or std::invalid_argument that names source and key.
double as_number(const Json& value, std::string_view key, const std::string& source);
/// An integer of at most 2^53; 4096.0 counts.
std::int64_t as_integer(const Json& value, std::string_view key, const std::string& source);
/// A list of finite numbers.
std::vector<double> as_numbers(const Json& value, std::string_view key, const std::string& source);
std::vector<std::int64_t> as_integers(const Json& value, std::string_view key,
                                      const std::string& source);

/// Adds the line if it is not there yet.
void note(std::vector<std::string>& lines, const std::string& line);

}  // namespace rotary::internal
