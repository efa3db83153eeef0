// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

#include "console/command.h"

#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <exception>
#include <new>
#include <string_view>
#include <vector>

#include "console/output.h"
#include "explain/text_layout.h"
#include "rotary/version.h"

namespace rotary::console {
namespace {

constexpr int kFailed = 1;
constexpr int kWrongUsage = 2;

int report_error(const Command& command, std::string_view message, int code) {
  // Messages of other libraries may have several lines.
  const std::string_view line = message.substr(0, message.find('\n'));
  print_error(fmt::format("{}: {}\n", command.name, explain::printable(line)));
  return code;
}

/// Names the verbs if argv[1] is none; CLI11 would say "argument not expected".
void check_verb(const CLI::App& app, int argc, char** argv) {
  const std::string_view verb = argc > 1 ? argv[1] : "";
  if (verb == "-h" || verb == "--help" || verb == "--version") return;
  std::vector<std::string> names;
  for (const CLI::App* sub : app.get_subcommands({})) names.push_back(sub->get_name());
  if (std::find(names.begin(), names.end(), verb) != names.end()) return;
  const std::string known = explain::join(names, ", ");
  if (verb.empty()) throw UsageError("a verb is needed: " + known);
  throw UsageError(fmt::format("no {} '{}': the verbs are {}",
                               verb.front() == '-' ? "option" : "verb", verb, known));
}

void declare_verbs(const Command& command, CLI::App& app) {
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
  declare_verbs(command, app);
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
    return report_error(command, error.what(), kWrongUsage);
  } catch (const UsageError& error) {
    return report_error(command, error.what(), kWrongUsage);
  }
}

}  // namespace

int run_command(const Command& command, int argc, char** argv) {
  open_standard_streams();
  try {
    return parse_and_run(command, argc, argv);
  } catch (const std::bad_alloc&) {
    return report_error(command, "not enough memory", kFailed);
  } catch (const std::exception& error) {
    return report_error(command, error.what(), kFailed);
  }
}

}  // namespace rotary::console
