// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// The verbs of the command `roformer`. add_<verb>() declares a verb and what runs when it is
// chosen; main() parses, and turns what is thrown into one line and an exit code.
#pragma once

#include <CLI/App.hpp>
#include <stdexcept>

namespace rotary::roformer::cli {

/// What was typed cannot be meant: exit code 2. Everything else that is thrown is exit code 1.
class UsageError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

void add_verify(CLI::App& app);
void add_convert(CLI::App& app);
void add_fill_mask(CLI::App& app);
void add_embed(CLI::App& app);
void add_similar(CLI::App& app);
void add_generate(CLI::App& app);

}  // namespace rotary::roformer::cli
