// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// The verbs of the command `roformer`, one file each. add_<verb>() declares a verb and its callback
// (console/command.h).
#pragma once

#include <CLI/App.hpp>

#include "console/command.h"

namespace rotary::roformer::cli {

using console::UsageError;

void add_pretrain(CLI::App& app);
void add_verify(CLI::App& app);
void add_convert(CLI::App& app);
void add_fill_mask(CLI::App& app);
void add_embed(CLI::App& app);
void add_similar(CLI::App& app);
void add_generate(CLI::App& app);
void add_evaluate(CLI::App& app);
void add_finetune(CLI::App& app);
void add_bench(CLI::App& app);
void add_look(CLI::App& app);
void add_rotation(CLI::App& app);
void add_lab(CLI::App& app);

}  // namespace rotary::roformer::cli
