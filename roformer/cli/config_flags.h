// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// The keys of a run's config as flags: `mask_rate` is --mask-rate.
#pragma once

#include <CLI/App.hpp>
#include <initializer_list>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "roformer/train/config_keys.h"

namespace rotary::roformer::cli {

/// Must live as long as the verb.
class ConfigFlags {
 public:
  /// Adds --config and a flag for each key; `positional` keys may also be given without a flag, as
  /// CHECKPOINT for `checkpoint`.
  void add_to(CLI::App& verb, std::span<const BoundKey> keys,
              std::initializer_list<std::string_view> positional = {});
  /// The file of --config; empty if there is none.
  const std::string& file() const noexcept { return file_; }
  /// Overrides keys by the flags that were given. Throws UsageError that names the flag.
  void apply_to(std::span<const BoundKey> keys) const;

 private:
  std::string file_;
  std::map<std::string, std::vector<std::string>, std::less<>> typed_;
};

}  // namespace rotary::roformer::cli
