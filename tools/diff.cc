// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// rotary diff: compares the rotations of two models.
#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "console/output.h"
#include "explain/compare.h"
#include "explain/describe.h"
#include "explain/format.h"
#include "explain/rope_json.h"
#include "explain/terminal.h"
#include "explain/text_layout.h"
#include "explain/text_table.h"
#include "rotary/model.h"
#include "tools/arguments.h"
#include "tools/commands.h"
#include "tools/diff_dialects.h"

namespace rotary::cli {
namespace {

using explain::Comparison;
using explain::Json;
using explain::paint;
using explain::ParameterDifference;
using explain::printable;
using explain::Style;
using explain::Terminal;
using explain::Verdict;

struct DiffOptions {
  std::string a;
  std::string b;
  std::string rope;
  std::string context;
  std::vector<std::string> dialects;
  bool all = false;
  bool json = false;
};

constexpr const char* kDiffFooter =
    R"(A and B are config.json files, model folders or GGUF files; their ropes are matched by name.
The last line says whether they differ; the exit code is 0 in both cases.

With --dialect, A is one config.json as two frameworks read it: transformers (hf) and the named one,
or two named ones. NAME is hf, vllm@0.32, vllm@2026-08, sglang, llama.cpp, mlx-lm, tensorrt-llm,
onnxruntime-genai, megatron, torchtitan, deepseek, tgi or paper; without a version the newest.

Examples:
  rotary diff base/config.json long-context/config.json
  rotary diff config.json converted.gguf
  rotary diff a.json b.json --context 131072 --json | jq .verdict
  rotary diff config.json --dialect vllm@2026-08
  rotary diff config.json --all)";

struct ModelComparison {
  std::vector<Comparison> ropes;
  std::vector<std::string> only_in_a;
  std::vector<std::string> only_in_b;
};

/// The name without "text.": a composite model has "text.default" where a text model has "default".
std::string_view base_name(std::string_view name) {
  constexpr std::string_view kText = "text.";
  return name.starts_with(kText) ? name.substr(kText.size()) : name;
}

const ModelRope* find(const Model& model, const std::string& name) {
  const auto found = std::find_if(
      model.ropes.begin(), model.ropes.end(),
      [&name](const ModelRope& rope) { return base_name(rope.name) == base_name(name); });
  return found == model.ropes.end() ? nullptr : &*found;
}

ModelComparison compare_models(const Model& a, const Model& b, const DiffOptions& options) {
  const std::int64_t context = parse_context(options.context);
  ModelComparison result;
  if (!options.rope.empty()) {
    result.ropes.push_back(explain::compare(a.rope(options.rope), b.rope(options.rope), context));
    return result;
  }
  // Two single ropes are compared whatever their names.
  if (a.ropes.size() == 1 && b.ropes.size() == 1) {
    result.ropes.push_back(explain::compare(a.ropes.front(), b.ropes.front(), context));
    return result;
  }
  for (const ModelRope& rope : a.ropes) {
    const ModelRope* other = find(b, rope.name);
    if (other != nullptr) {
      result.ropes.push_back(explain::compare(rope, *other, context));
    } else {
      result.only_in_a.push_back(rope.name);
    }
  }
  for (const ModelRope& rope : b.ropes) {
    if (find(a, rope.name) == nullptr) result.only_in_b.push_back(rope.name);
  }
  return result;
}

bool is_same(const ModelComparison& result) {
  return result.only_in_a.empty() && result.only_in_b.empty() &&
         std::all_of(result.ropes.begin(), result.ropes.end(),
                     [](const Comparison& rope) { return rope.verdict == Verdict::kSame; });
}

// ---- JSON ---------------------------------------------------------------------------------------

Json result_json(const ModelComparison& result, const DiffOptions& options) {
  Json json = {{"a", options.a},
               {"b", options.b},
               {"verdict", is_same(result) ? "same rotation" : "differ"},
               {"only_in_a", result.only_in_a},
               {"only_in_b", result.only_in_b},
               {"ropes", Json::array()}};
  for (const Comparison& rope : result.ropes)
    json["ropes"].push_back(explain::comparison_json(rope));
  return json;
}

// ---- Text ---------------------------------------------------------------------------------------

void add_parameters(std::string& text, const std::vector<ParameterDifference>& parameters,
                    const Terminal& terminal) {
  explain::TextTable table({"parameter", "A", "B"});
  for (const ParameterDifference& entry : parameters) {
    table.add_row({entry.parameter, printable(explain::value_text(entry.a)),
                   printable(explain::value_text(entry.b))});
  }
  text.append(table.text(terminal)).append("\n");
}

std::string ratio_text(const explain::FrequencyRatio& ratio) {
  if (ratio.largest == 1.0) {
    return ratio.a == ratio.b ? "1: the same frequencies"
                              : "1, but pairs rotate in opposite directions";
  }
  return fmt::format("{} at pair {} (A {:.4g}, B {:.4g} rad per position)",
                     explain::format_number(ratio.largest), ratio.pair, ratio.a, ratio.b);
}

void add_numbers(std::string& text, const Comparison& rope) {
  const auto add = [&text](std::string_view name, const std::string& value) {
    text.append("  ").append(explain::pad(name, 26)).append(value).append("\n");
  };
  if (!rope.comparable) {
    add("frequencies", "not comparable: different numbers of pairs or axes");
  } else {
    if (rope.ratio) add("largest frequency ratio", ratio_text(*rope.ratio));
    if (!rope.constant_in_a.empty())
      add("not rotated in A only", "pairs " + explain::format_ranges(rope.constant_in_a));
    if (!rope.constant_in_b.empty())
      add("not rotated in B only", "pairs " + explain::format_ranges(rope.constant_in_b));
    add("phases differ by 0.1 rad",
        rope.divergence ? fmt::format("from position {} (pair {})", rope.divergence->position,
                                      rope.divergence->pair)
                        : std::string("never"));
  }
  add("scale, B over A", explain::format_number(rope.scale_ratio));
  if (rope.softmax_scale_ratio != 1.0) {
    add("softmax scale, B over A", explain::format_number(rope.softmax_scale_ratio));
  }
}

std::string verdict_text(const ModelComparison& result) {
  if (is_same(result)) {
    const bool softmax =
        std::any_of(result.ropes.begin(), result.ropes.end(),
                    [](const Comparison& rope) { return rope.softmax_scale_ratio != 1.0; });
    return softmax ? "same rotation, but attention scores are scaled differently" : "same rotation";
  }
  std::vector<std::string> reasons;
  for (const Comparison& rope : result.ropes) {
    if (rope.verdict == Verdict::kSame) continue;
    std::string reason = rope.name;
    if (rope.verdict == Verdict::kRounding) {
      reason += " by no more than float32 rounding";
    } else if (!rope.comparable) {
      reason += " in the number of pairs or axes";
    } else if (rope.divergence) {
      reason += fmt::format(" from position {} on", rope.divergence->position);
    } else {
      reason += rope.scale_ratio != 1.0 ? " in scale" : " in layout";
    }
    reasons.push_back(reason);
  }
  for (const std::string& name : result.only_in_a) reasons.push_back(name + " is only in A");
  for (const std::string& name : result.only_in_b) reasons.push_back(name + " is only in B");
  return "differ: " + printable(explain::join(reasons, "; "));
}

std::string result_text(const ModelComparison& result, const Model& a, const Model& b,
                        const DiffOptions& options) {
  const Terminal terminal = console::detect_terminal();
  std::string text;
  const auto add_model = [&text, &terminal](std::string_view side, const Model& model,
                                            const std::string& path) {
    text += fmt::format("{}  {}  {}\n", paint(terminal, Style::kTitle, side), printable(path),
                        paint(terminal, Style::kFaint, printable(model.model_type)));
  };
  add_model("A", a, options.a);
  add_model("B", b, options.b);
  for (const Comparison& rope : result.ropes) {
    const std::string title = "Rope " + printable(rope.name);
    text.append("\n").append(paint(terminal, Style::kTitle, title)).append("\n");
    if (rope.parameters.empty()) {
      text += "  all parameters are the same\n";
    } else {
      add_parameters(text, rope.parameters, terminal);
    }
    add_numbers(text, rope);
  }
  if (!result.only_in_a.empty())
    text += "\nOnly in A: " + printable(explain::join(result.only_in_a, ", ")) + "\n";
  if (!result.only_in_b.empty())
    text += "\nOnly in B: " + printable(explain::join(result.only_in_b, ", ")) + "\n";
  const Style style = is_same(result) ? Style::kValue : Style::kWarning;
  return text + "\n" + paint(terminal, style, verdict_text(result)) + "\n";
}

void diff(const DiffOptions& options) {
  const std::int64_t context = parse_context(options.context);  // usage errors before file errors
  if (options.all || !options.dialects.empty()) {
    if (!options.b.empty()) throw UsageError("a dialect needs one model, got two");
    return diff_dialects({.model = options.a,
                          .rope = options.rope,
                          .dialects = options.dialects,
                          .all = options.all,
                          .context = context,
                          .json = options.json});
  }
  if (options.b.empty()) throw UsageError("give two models, or one and --dialect or --all");
  const Model a = Model::read(options.a);
  const Model b = Model::read(options.b);
  const ModelComparison result = compare_models(a, b, options);
  console::print_out(options.json ? explain::to_text(result_json(result, options))
                                  : result_text(result, a, b, options));
}

}  // namespace

void add_diff(CLI::App& app) {
  auto options = std::make_shared<DiffOptions>();
  CLI::App* verb = app.add_subcommand("diff", "Compare the rotations of two models");
  verb->footer(kDiffFooter);
  verb->add_option("A", options->a, "First model")->required()->type_name("");
  verb->add_option("B", options->b, "Second model")->type_name("");
  verb->add_option("--context", options->context, "Context in use, for recipes that depend on it")
      ->type_name("N");
  verb->add_option("--rope", options->rope, "Only the rope of this name")->type_name("NAME");
  verb->add_option("--dialect", options->dialects, "A framework; once: against hf, or twice")
      ->type_name("NAME")
      ->allow_extra_args(false);
  verb->add_flag("--all", options->all, "Every dialect against hf");
  verb->add_flag("--json", options->json, "Print JSON");
  verb->callback([options] { diff(*options); });
}

}  // namespace rotary::cli
