// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// rotary plan: what to do for a context of N tokens.
#include "explain/plan.h"

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
#include "explain/describe.h"
#include "explain/format.h"
#include "explain/rope_json.h"
#include "explain/terminal.h"
#include "explain/text_layout.h"
#include "explain/text_table.h"
#include "rotary/model.h"
#include "tools/arguments.h"
#include "tools/commands.h"

namespace rotary::cli {
namespace {

using explain::Coverage;
using explain::EngineLines;
using explain::Json;
using explain::Plan;
using explain::PlanOption;
using explain::printable;

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

/// A plan with the lines of each option.
struct Answer {
  std::string rope;
  Plan plan;
  std::vector<std::vector<EngineLines>> lines;
};

std::string read_config_text(const std::string& model) {
  std::filesystem::path path = model;
  std::error_code error;
  if (std::filesystem::is_directory(path, error)) path /= "config.json";
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

Answer compute_plan(const PlanOptions& options, std::int64_t context) {
  const Model model = Model::read(options.model);  // its errors, and its limits
  const ModelRope& rope = model.rope(options.rope);
  Answer answer{.rope = rope.name, .plan = explain::make_plan(rope, context), .lines = {}};
  const std::string config = read_config_text(options.model);
  if (config.starts_with("GGUF")) {
    throw std::invalid_argument(
        fmt::format("[plan] {} is a GGUF file; give the config.json of the model", options.model));
  }
  for (const PlanOption& option : answer.plan.options) {
    answer.lines.push_back(
        explain::engine_lines(option, answer.plan, config, rope.name, options.engine));
  }
  return answer;
}

// ---- Text ---------------------------------------------------------------------------------------

std::string short_text(const PlanOption& option, std::int64_t pairs) {
  if (option.pairs_changed == 0 && option.score_factor == 1.0) return "unchanged";
  std::string text = fmt::format("{} of {} pairs", option.pairs_changed, pairs);
  if (option.score_factor != 1.0) text += fmt::format(", scores x{:.3g}", option.score_factor);
  return text;
}

std::string answer_text(const Answer& answer, const PlanOptions& options) {
  const explain::Terminal terminal = console::detect_terminal();
  const Plan& plan = answer.plan;
  std::string text = explain::paint(terminal, explain::Style::kTitle,
                                    printable(options.model) + ", rope " + answer.rope) +
                     "\n";
  for (const std::string& line : explain::wrap(explain::coverage_text(plan), terminal.columns)) {
    text += line + "\n";
  }
  if (plan.coverage != Coverage::kBeyond) return text;
  explain::TextTable table({"recipe", "factor", "short", "unseen"});
  const auto add = [&](const PlanOption& option, const std::string& factor) {
    table.add_row({option.name, factor, short_text(option, plan.pairs),
                   fmt::format("{} of {} pairs", option.pairs_unseen, plan.pairs)});
  };
  add(plan.now, "as it is");
  for (const PlanOption& option : plan.options) {
    const Json* factor = option.rope_parameters.find("factor");
    add(option, factor != nullptr ? explain::value_text(*factor)
                                  : "base " + explain::format_number(option.recipe.theta));
  }
  text += table.text(terminal);
  for (std::size_t i = 0; i < plan.options.size(); ++i) {
    text += "\n" + explain::paint(terminal, explain::Style::kTitle, plan.options[i].name) + "\n";
    for (const EngineLines& line : answer.lines[i]) {
      text +=
          fmt::format("  {}: {}\n", line.dialect, line.checked ? "checked" : "no: " + line.problem);
      if (line.checked) text += "    " + printable(line.text) + "\n";
    }
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
    const Answer answer = compute_plan(*options, context);
    console::print_out(
        options->json ? explain::to_text(explain::plan_json(answer.plan, answer.lines, answer.rope))
                      : answer_text(answer, *options));
  });
}

}  // namespace rotary::cli
