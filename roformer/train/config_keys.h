// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

/// Configs of runs: JSON objects. A command has a flag for each key, which overrides it.
///
/// A config is a plain struct; one list binds it to its keys:
///
///   std::vector<BoundKey> keys_of(RunConfig& config) {
///     return {{{"seed", "N", "seed of weights and order"}, &config.seed}, ...};
///   }
///
/// An unknown key or an invalid value is an error that names it.
#pragma once

#include <cstdint>
#include <filesystem>
#include <limits>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace rotary::roformer {

/// Steps with rows of one length.
struct Stage {
  std::int64_t length = 512;
  /// Rows per step, over all ranks.
  std::int64_t batch = 256;
  std::int64_t steps = 100000;

  friend bool operator==(const Stage&, const Stage&) = default;
};

struct ConfigKey {
  std::string_view name;
  /// "N", "X", "WORD", "PATH", "PATH...", "JSON" (an object, or a path), "NAME...", "on|off",
  /// "LxBxS,..."
  std::string_view kind;
  std::string_view help;
};

/// Valid values: words, or a range of numbers.
struct ConfigRule {
  std::string_view words{};  // "a|b|c"
  double min = 0.0;
  double max = std::numeric_limits<double>::infinity();
};

/// A key and the member that it is bound to.
struct BoundKey {
  ConfigKey info;
  std::variant<std::string*, std::vector<std::string>*, std::vector<Stage>*, std::int64_t*,
               std::uint64_t*, double*, bool*>
      value;
  ConfigRule rule{};
};

/// Throws IoError that names the file and the key.
void read_config_file(std::span<const BoundKey> keys, const std::filesystem::path& path);
/// Sets a key from a flag: one value, or the paths of a list. Throws std::invalid_argument, whose
/// text begins with the key.
void set_from_text(std::span<const BoundKey> keys, std::string_view name,
                   std::span<const std::string> values);
/// The value in the form of a flag; empty if it is.
std::string to_text(const BoundKey& key);
/// The first key whose values differ, but for the `free` ones; empty if there is none.
std::string_view other_key(std::span<const BoundKey> a, std::span<const BoundKey> b,
                           std::span<const std::string_view> free);
/// Every key in its order.
std::string to_json(std::span<const BoundKey> keys);

}  // namespace rotary::roformer
