// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// A command with verbs, such as `rotary` and `roformer`: help, one-line errors, exit codes.
#pragma once

#include <CLI/App.hpp>
#include <initializer_list>
#include <stdexcept>
#include <string>

namespace rotary::console {

/// Wrong usage: exit code 2. Any other exception is exit code 1.
class UsageError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

struct Command {
  std::string name;
  std::string about;   // first line of the help
  std::string footer;  // last lines of the help
  /// Each declares a verb and its callback.
  std::initializer_list<void (*)(CLI::App&)> verbs;
};

/// Runs the verb in argv[1]. Returns the exit code: 0 done, 1 failed, 2 wrong usage. Errors are
/// printed to stderr as one line.
int run_command(const Command& command, int argc, char** argv);

}  // namespace rotary::console
