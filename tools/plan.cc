// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// rotary plan: what to do for a context of N tokens.
#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <string>
#include <vector>

#include "console/output.h"
#include "explain/format.h"
#include "explain/plan_report.h"
#include "explain/rope_json.h"
#include "explain/text_layout.h"
#include "rotary/model.h"
#include "tools/arguments.h"
#include "tools/commands.h"

namespace rotary::cli {
namespace {

struct PlanOptions {
  std::string model;
  std::string rope;
  std::string context;
  std::string engine;
  bool json = false;
};

constexpr const char* kPlanFooter =
    R"(MODEL is a config.json or a folder with one. If N tokens exceed the extended context, each
recipe is shown with
  short     what changes for prompts within the original context, against the model before any
            scaling: pairs with other frequencies, and the factor on attention scores
  unseen    pairs that reach angles within N tokens that they never had in training
and the lines to type. They are read back in the dialect of the engine (see rotary diff): "checked"
means that it makes this rotation of them. Flags of llama.cpp stand for the same keys.

Examples:
  rotary plan config.json --context 131072
  rotary plan config.json --context 131072 --engine vllm)";

/// The text of the config, after Model::read() has checked it and its limits.
std::string read_config_text(const std::string& model) {
  static_cast<void>(Model::read(model));
  std::filesystem::path path = model;
  std::error_code error;
  if (std::filesystem::is_directory(path, error)) path /= "config.json";
  std::ifstream file(path, std::ios::binary);
  std::string text{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  if (text.starts_with("GGUF")) {
    throw std::invalid_argument(
        fmt::format("[plan] {} is a GGUF file; give the config.json of the model", model));
  }
  return text;
}

}  // namespace

void add_plan(CLI::App& app) {
  auto options = std::make_shared<PlanOptions>();
  CLI::App* verb = app.add_subcommand("plan", "Show what to do for a context of N tokens");
  verb->footer(kPlanFooter);
  verb->add_option("MODEL", options->model, "config.json or model folder")
      ->required()
      ->type_name("");
  verb->add_option("--context", options->context, "Tokens")->required()->type_name("N");
  verb->add_option("--rope", options->rope, "The rope of this name")->type_name("NAME");
  verb->add_option("--engine", options->engine, "hf, vllm, sglang or llama.cpp; default: all")
      ->type_name("NAME");
  verb->add_flag("--json", options->json, "Print JSON");
  verb->callback([options] {
    const std::int64_t context = parse_context(options->context);
    const std::vector<std::string>& engines = explain::plan_engines();
    if (!options->engine.empty() &&
        std::find(engines.begin(), engines.end(), options->engine) == engines.end()) {
      throw UsageError(fmt::format("--engine must be one of {}, got '{}'",
                                   explain::join(engines, ", "), options->engine));
    }
    const explain::PlanReport report = explain::report_plan(
        read_config_text(options->model), options->model, options->rope, context, options->engine);
    console::print_out(
        options->json ? explain::to_text(explain::plan_json(report))
                      : explain::plan_text(report, options->model, console::detect_terminal()));
  });
}

}  // namespace rotary::cli
