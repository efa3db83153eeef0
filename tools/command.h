// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// A command with verbs, as `rotary` and `roformer` are: help, errors in one line, exit codes.
#pragma once

#include <CLI/App.hpp>
#include <initializer_list>
#include <stdexcept>
#include <string>

namespace rotary::cli {

/// What was typed cannot be meant: exit code 2. Everything else that is thrown is exit code 1.
class UsageError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

struct Command {
  std::string name;
  std::string about;   // in the first line of the help
  std::string footer;  // the last lines of the help
  /// Each declares a verb and what runs when it is chosen.
  std::initializer_list<void (*)(CLI::App&)> verbs;
};

/// Runs the verb that was typed. The exit code: 0 done, 1 failed, 2 wrong usage.
int run_command(const Command& command, int argc, char** argv);

}  // namespace rotary::cli
