// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// The verbs of the command `rotary`, one file each. add_<verb>() declares a verb and its callback
// (console/command.h).
#pragma once

#include <CLI/App.hpp>

#include "console/command.h"

namespace rotary::cli {

using console::UsageError;

void add_inspect(CLI::App& app);
void add_rotate(CLI::App& app);
void add_diff(CLI::App& app);
void add_bounds(CLI::App& app);
void add_decay(CLI::App& app);
void add_map(CLI::App& app);
void add_export(CLI::App& app);
void add_permute(CLI::App& app);
void add_plan(CLI::App& app);
void add_explore(CLI::App& app);
void add_precision(CLI::App& app);
void add_bench(CLI::App& app);
void add_models(CLI::App& app);
void add_completion(CLI::App& app);

}  // namespace rotary::cli
