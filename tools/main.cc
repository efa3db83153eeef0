// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// The command rotary: what a model's rotation is, and the rotation itself.
#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <exception>
#include <new>
#include <string>
#include <string_view>
#include <vector>

#include "rotary/version.h"
#include "tools/cli.h"
#include "tools/terminal.h"
#include "tools/words.h"

namespace {

constexpr int kFailed = 1;
constexpr int kWrongUsage = 2;

constexpr const char* kFooter = R"(Examples:
  rotary inspect config.json            what turns, how fast, and what was assumed
  rotary inspect Qwen2.5-7B/ --json     the same for a program
  rotary diff base.json long.json       where two models part
  rotary rotate config.json q.npy out.npy --positions 0:4096
  rotary bench                          how fast this machine rotates

Exit codes: 0 done, 1 failed, 2 wrong usage. `rotary VERB --help` tells more about a verb.)";

int complain(std::string_view message, int code) {
  fmt::print(stderr, "rotary: {}\n", rotary::cli::printable(message));
  return code;
}

/// CLI11 speaks of arguments "not expected"; a missing or mistyped verb deserves better.
void check_verb(const CLI::App& app, int argc, char** argv) {
  const std::string_view verb = argc > 1 ? argv[1] : "";
  if (verb == "-h" || verb == "--help" || verb == "--version") return;
  std::vector<std::string> names;
  for (const CLI::App* sub : app.get_subcommands({})) names.push_back(sub->get_name());
  if (std::find(names.begin(), names.end(), verb) != names.end()) return;
  const std::string known = rotary::cli::join(names, ", ");
  if (verb.empty()) throw rotary::cli::UsageError("a verb is needed: " + known);
  throw rotary::cli::UsageError(fmt::format("no {} '{}': the verbs are {}",
                                            verb.front() == '-' ? "option" : "verb", verb, known));
}

int run(int argc, char** argv) {
  CLI::App app{"rotary: the rotary position embedding (RoPE) of any model", "rotary"};
  app.set_version_flag("--version", "rotary " ROTARY_VERSION_STRING, "Print the version and exit");
  app.set_help_flag("-h,--help", "Print this help and exit");
  app.require_subcommand(1);
  app.footer(kFooter);
  app.get_formatter()->label("REQUIRED", "");
  app.get_formatter()->label("SUBCOMMAND", "VERB");
  app.get_formatter()->column_width(28);
  rotary::cli::add_inspect(app);
  rotary::cli::add_rotate(app);
  rotary::cli::add_diff(app);
  rotary::cli::add_bench(app);
  rotary::cli::add_models(app);
  rotary::cli::add_completion(app);
  for (CLI::App* verb : app.get_subcommands({})) verb->group("Verbs");

  try {
    check_verb(app, argc, argv);
    app.parse(argc, argv);
    return 0;
  } catch (const CLI::CallForHelp&) {
    rotary::cli::print_out(app.help());
    return 0;
  } catch (const CLI::CallForVersion& version) {
    rotary::cli::print_out(std::string(version.what()) + "\n");
    return 0;
  } catch (const CLI::ParseError& error) {
    return complain(error.what(), kWrongUsage);
  } catch (const rotary::cli::UsageError& error) {
    return complain(error.what(), kWrongUsage);
  }
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return run(argc, argv);
  } catch (const std::bad_alloc&) {
    return complain("not enough memory", kFailed);
  } catch (const std::exception& error) {
    return complain(error.what(), kFailed);
  }
}
