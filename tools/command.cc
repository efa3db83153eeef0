// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

#include "tools/command.h"

#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <exception>
#include <new>
#include <string_view>
#include <vector>

#include "rotary/version.h"
#include "tools/terminal.h"
#include "tools/words.h"

namespace rotary::cli {
namespace {

constexpr int kFailed = 1;
constexpr int kWrongUsage = 2;

int complain(const Command& command, std::string_view message, int code) {
  // One line: messages of libraries may go on.
  const std::string_view line = message.substr(0, message.find('\n'));
  fmt::print(stderr, "{}: {}\n", command.name, printable(line));
  return code;
}

/// CLI11 speaks of arguments "not expected"; a missing or mistyped verb deserves better.
void check_verb(const CLI::App& app, int argc, char** argv) {
  const std::string_view verb = argc > 1 ? argv[1] : "";
  if (verb == "-h" || verb == "--help" || verb == "--version") return;
  std::vector<std::string> names;
  for (const CLI::App* sub : app.get_subcommands({})) names.push_back(sub->get_name());
  if (std::find(names.begin(), names.end(), verb) != names.end()) return;
  const std::string known = join(names, ", ");
  if (verb.empty()) throw UsageError("a verb is needed: " + known);
  throw UsageError(fmt::format("no {} '{}': the verbs are {}",
                               verb.front() == '-' ? "option" : "verb", verb, known));
}

void declare(const Command& command, CLI::App& app) {
  app.set_version_flag("--version", command.name + " " ROTARY_VERSION_STRING,
                       "Print the version and exit");
  app.set_help_flag("-h,--help", "Print this help and exit");
  app.require_subcommand(1);
  app.footer(command.footer);
  app.get_formatter()->label("REQUIRED", "");
  app.get_formatter()->label("SUBCOMMAND", "VERB");
  app.get_formatter()->column_width(28);
  for (const auto add_verb : command.verbs) add_verb(app);
  for (CLI::App* verb : app.get_subcommands({})) verb->group("Verbs");
}

int parse_and_run(const Command& command, int argc, char** argv) {
  CLI::App app{command.about, command.name};
  declare(command, app);
  try {
    check_verb(app, argc, argv);
    app.parse(argc, argv);
    return 0;
  } catch (const CLI::CallForHelp&) {
    print_out(app.help());
    return 0;
  } catch (const CLI::CallForVersion& version) {
    print_out(std::string(version.what()) + "\n");
    return 0;
  } catch (const CLI::ParseError& error) {
    return complain(command, error.what(), kWrongUsage);
  } catch (const UsageError& error) {
    return complain(command, error.what(), kWrongUsage);
  }
}

}  // namespace

int run_command(const Command& command, int argc, char** argv) {
  try {
    return parse_and_run(command, argc, argv);
  } catch (const std::bad_alloc&) {
    return complain(command, "not enough memory", kFailed);
  } catch (const std::exception& error) {
    return complain(command, error.what(), kFailed);
  }
}

}  // namespace rotary::cli
