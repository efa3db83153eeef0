// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// The command roformer: the Transformer with rotary position embeddings.
#include <c10/util/Exception.h>
#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <exception>
#include <new>
#include <string>
#include <string_view>
#include <vector>

#include "roformer/cli/commands.h"
#include "rotary/version.h"
#include "tools/terminal.h"
#include "tools/words.h"

namespace {

using rotary::roformer::cli::UsageError;

constexpr int kFailed = 1;
constexpr int kWrongUsage = 2;

constexpr const char* kFooter = R"(Examples:
  roformer verify model/ reference.json          is it the same model as elsewhere?
  roformer convert bert-base-chinese/ rope/      a model with a table of positions, turned to RoPE
  roformer fill-mask model/ "今天[MASK]很好"       what may stand there
  roformer similar model/ "one text" "another"   how much they have in common
  roformer generate model/ "Once upon a time"    go on with a text

A model is a folder with config.json and model.safetensors, as Hugging Face has it, or a
.safetensors file with its config beside it. Exit codes: 0 done, 1 failed, 2 wrong usage.
`roformer VERB --help` tells more about a verb.)";

int complain(std::string_view message, int code) {
  // One line: PyTorch's messages may go on.
  const std::string_view line = message.substr(0, message.find('\n'));
  fmt::print(stderr, "roformer: {}\n", rotary::cli::printable(line));
  return code;
}

void check_verb(const CLI::App& app, int argc, char** argv) {
  const std::string_view verb = argc > 1 ? argv[1] : "";
  if (verb == "-h" || verb == "--help" || verb == "--version") return;
  std::vector<std::string> names;
  for (const CLI::App* sub : app.get_subcommands({})) names.push_back(sub->get_name());
  if (std::find(names.begin(), names.end(), verb) != names.end()) return;
  const std::string known = rotary::cli::join(names, ", ");
  if (verb.empty()) throw UsageError("a verb is needed: " + known);
  throw UsageError(fmt::format("no {} '{}': the verbs are {}",
                               verb.front() == '-' ? "option" : "verb", verb, known));
}

int run(int argc, char** argv) {
  CLI::App app{"roformer: the Transformer with rotary position embeddings", "roformer"};
  app.set_version_flag("--version", "roformer " ROTARY_VERSION_STRING,
                       "Print the version and exit");
  app.set_help_flag("-h,--help", "Print this help and exit");
  app.require_subcommand(1);
  app.footer(kFooter);
  app.get_formatter()->label("REQUIRED", "");
  app.get_formatter()->label("SUBCOMMAND", "VERB");
  app.get_formatter()->column_width(28);
  rotary::roformer::cli::add_verify(app);
  rotary::roformer::cli::add_convert(app);
  rotary::roformer::cli::add_fill_mask(app);
  rotary::roformer::cli::add_embed(app);
  rotary::roformer::cli::add_similar(app);
  rotary::roformer::cli::add_generate(app);
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
  } catch (const UsageError& error) {
    return complain(error.what(), kWrongUsage);
  }
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return run(argc, argv);
  } catch (const std::bad_alloc&) {
    return complain("not enough memory", kFailed);
  } catch (const c10::Error& error) {
    return complain(error.what_without_backtrace(), kFailed);
  } catch (const std::exception& error) {
    return complain(error.what(), kFailed);
  }
}
