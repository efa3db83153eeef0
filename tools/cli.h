// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// The verbs of the command, one file each. add_<verb>() declares a verb and what runs when it is
// chosen (tools/command.h).
#pragma once

#include <CLI/App.hpp>
#include <cstdint>
#include <string>

#include "tools/command.h"

namespace rotary::cli {

void add_inspect(CLI::App& app);
void add_rotate(CLI::App& app);
void add_diff(CLI::App& app);
void add_bench(CLI::App& app);
void add_models(CLI::App& app);
void add_completion(CLI::App& app);

/// A positive whole number; empty text is 0. Throws UsageError that names the option.
std::int64_t parse_context(const std::string& text);

}  // namespace rotary::cli
