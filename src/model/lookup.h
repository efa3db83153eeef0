// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// One config object with its family's defaults behind it, and the notes that reading it leaves.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "model/family.h"
#include "model/json.h"

namespace rotary::internal {

/// Where a value was found.
struct Found {
  const Json* value = nullptr;
  std::string key;  // as spelled in the file
  bool assumed = false;
  explicit operator bool() const noexcept { return value != nullptr; }
};

/// Reads keys in every spelling in use: "rope_theta" finds rotary_emb_base too, "hidden_size" finds
/// n_embd, and so on. Null values count as absent.
class Lookup {
 public:
  Lookup(const Json& config, const Family& family, std::string model_type, std::string source)
      : config_(config),
        family_(family),
        model_type_(std::move(model_type)),
        source_(std::move(source)) {}

  /// In the file only.
  Found in_file(std::string_view key) const;
  /// In the file, else in the family's defaults.
  Found find(std::string_view key) const;

  /// The number under a key; absent if there is none. Throws std::invalid_argument with the key if
  /// the value is not a number. What comes from the defaults is noted in `assumed`.
  std::optional<double> number(std::string_view key, std::vector<std::string>& assumed) const;
  std::optional<std::int64_t> integer(std::string_view key,
                                      std::vector<std::string>& assumed) const;

  /// The head's width by the family's rules; throws if none of them can be followed.
  std::int64_t head_dim(std::vector<std::string>& assumed) const;

  const Json& config() const noexcept { return config_; }
  const Family& family() const noexcept { return family_; }
  /// As the file says, or as its parent implies.
  const std::string& model_type() const noexcept { return model_type_; }
  const std::string& source() const noexcept { return source_; }

 private:
  std::optional<std::int64_t> follow(std::string_view rule,
                                     std::vector<std::string>& assumed) const;

  const Json& config_;
  const Family& family_;
  std::string model_type_;
  std::string source_;
};

/// A finite number, or std::invalid_argument that names source and key.
double as_number(const Json& value, std::string_view key, const std::string& source);
/// A whole number that fits; 4096.0 is one.
std::int64_t as_integer(const Json& value, std::string_view key, const std::string& source);
/// A list of finite numbers.
std::vector<double> as_numbers(const Json& value, std::string_view key, const std::string& source);
std::vector<std::int64_t> as_integers(const Json& value, std::string_view key,
                                      const std::string& source);

/// Adds the line unless it is there already.
void note(std::vector<std::string>& lines, const std::string& line);

}  // namespace rotary::internal
