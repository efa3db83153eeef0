// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

#include "roformer/cli/config_flags.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cctype>
#include <stdexcept>

#include "roformer/cli/commands.h"

namespace rotary::roformer::cli {
namespace {

/// "mask_rate" to "--mask-rate".
std::string flag_of(std::string_view key) {
  std::string flag = "--" + std::string(key);
  std::ranges::replace(flag, '_', '-');
  return flag;
}

std::string upper(std::string_view key) {
  std::string out(key);
  std::ranges::transform(out, out.begin(), [](unsigned char c) { return std::toupper(c); });
  return out;
}

}  // namespace

void ConfigFlags::add_to(CLI::App& verb, std::span<const BoundKey> keys,
                         std::initializer_list<std::string_view> positional) {
  verb.add_option("--config", file_, "A JSON file with these keys")->type_name("FILE");
  for (const BoundKey& key : keys) {
    const ConfigKey& info = key.info;
    const bool bare = std::ranges::find(positional, info.name) != positional.end();
    auto* flag = verb.add_option(flag_of(info.name) + (bare ? "," + upper(info.name) : ""),
                                 typed_[std::string(info.name)], std::string(info.help));
    // CLI11 itself shows that there may be several.
    const bool several = info.kind == "PATH..." || info.kind == "NAME...";
    flag->type_name(std::string(info.kind.substr(0, several ? 4 : std::string_view::npos)));
    if (several) continue;
    if (info.name != "stages") flag->default_str(to_text(key));
    flag->expected(1)->allow_extra_args(false);
    // The last of a repeated flag counts; a positional argument takes one value only.
    if (!bare) flag->take_last();
  }
}

void ConfigFlags::apply_to(std::span<const BoundKey> keys) const {
  for (const auto& [key, values] : typed_) {
    if (values.empty()) continue;
    try {
      set_from_text(keys, key, values);
    } catch (const std::invalid_argument& error) {
      // The text begins with the key.
      throw UsageError(flag_of(key) + std::string(error.what()).substr(key.size()));
    }
  }
}

}  // namespace rotary::roformer::cli
