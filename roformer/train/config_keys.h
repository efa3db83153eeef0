// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

/// Configs of runs: JSON objects, each key of which a flag of a command may replace.
///
/// A config is a plain struct; what binds it to its keys is one list:
///
///   std::vector<BoundKey> keys_of(RunConfig& config) {
///     return {{{"seed", "N", "of weights and order"}, &config.seed}, ...};
///   }
///
/// A key that is not known, or a value that does not fit, is an error that names it.
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
  /// Rows a step, of all ranks.
  std::int64_t batch = 256;
  std::int64_t steps = 100000;

  friend bool operator==(const Stage&, const Stage&) = default;
};

struct ConfigKey {
  std::string_view name;
  /// "N", "X", "WORD", "PATH", "PATH...", "on|off", "LxBxS,..."
  std::string_view kind;
  std::string_view help;
};

/// What a value may be: words, or a range of numbers.
struct ConfigRule {
  std::string_view words{};  // "a|b|c"
  double least = 0.0;
  double most = std::numeric_limits<double>::infinity();
};

/// A key, and where its value is kept.
struct BoundKey {
  ConfigKey told;
  std::variant<std::string*, std::vector<std::string>*, std::vector<Stage>*, std::int64_t*,
               std::uint64_t*, double*, bool*>
      value;
  ConfigRule rule{};
};

/// Throws IoError that names the file and the key.
void read_config_file(std::span<const BoundKey> keys, const std::filesystem::path& path);
/// As a flag has it: one value, or the paths of a list. Throws std::invalid_argument, whose text
/// begins with the key.
void set_from_text(std::span<const BoundKey> keys, std::string_view name,
                   std::span<const std::string> values);
/// The value as a flag would have it; empty for an empty one.
std::string to_text(const BoundKey& key);
/// Every key in its order.
std::string to_json(std::span<const BoundKey> keys);

}  // namespace rotary::roformer
