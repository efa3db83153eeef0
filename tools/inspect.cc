// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// rotary inspect: what a model's rotation is, for a person or as JSON.
#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "rotary/model.h"
#include "tools/chart.h"
#include "tools/cli.h"
#include "tools/describe.h"
#include "tools/grid.h"
#include "tools/rope_json.h"
#include "tools/terminal.h"
#include "tools/wavelengths.h"
#include "tools/words.h"

namespace rotary::cli {
namespace {

struct InspectOptions {
  std::string model;
  std::string context;
  std::string rope;
  bool json = false;
};

constexpr const char* kInspectFooter =
    R"(MODEL is a Hugging Face config.json, a model folder, or a GGUF file.

Examples:
  rotary inspect config.json
  rotary inspect phi-3/ --context 131072     the frequencies in use for a long text
  rotary inspect gemma-3/ --rope text.full_attention
  rotary inspect model.gguf --json | jq '.ropes[0].frequencies')";

constexpr const char* kIntroduction =
    "Rotary position embedding turns pairs of elements of every query and key by an angle that "
    "grows with the token's position. Each pair has its own speed, so that attention sees how far "
    "apart two tokens are.";

/// A rope with its frequencies for the length that was asked for.
struct Shown {
  const ModelRope* rope;
  Frequencies frequencies;
};

void add_paragraph(std::string& text, const std::string& words, const Terminal& terminal,
                   std::size_t indent) {
  for (const std::string& line : wrap(words, terminal.columns - indent)) {
    text.append(indent, ' ').append(line).append("\n");
  }
}

/// "warning: text", wrapped under itself.
void add_remarks(std::string& text, const std::string& label,
                 const std::vector<std::string>& remarks, const Terminal& terminal) {
  const std::size_t indent = label.size() + 4;
  for (const std::string& remark : remarks) {
    std::string lead = "  " + paint(terminal, Style::kWarning, label + ":") + " ";
    for (const std::string& line : wrap(printable(remark), terminal.columns - indent)) {
      text.append(lead).append(line).append("\n");
      lead = std::string(indent, ' ');
    }
  }
}

void add_table(std::string& text, const std::vector<Row>& rows, const Terminal& terminal) {
  constexpr std::size_t kNameWidth = 17;
  std::size_t value_width = 0;
  for (const Row& row : rows) {
    if (!row.words.empty()) value_width = std::max(value_width, width_of(row.value));
  }
  value_width = std::min<std::size_t>(value_width, 24) + 2;
  for (const Row& row : rows) {
    const std::size_t indent = 2 + kNameWidth + (row.words.empty() ? 0 : value_width);
    const std::string& flowing = row.words.empty() ? row.value : row.words;
    std::string lead = "  " + paint(terminal, Style::kFaint, pad(row.name, kNameWidth));
    if (!row.words.empty()) {
      lead += paint(terminal, Style::kValue, pad(printable(row.value), value_width));
      // A value wider than its column pushes its words to the next line.
      if (width_of(row.value) + 2 > value_width) {
        text.append(lead).append("\n");
        lead = std::string(indent, ' ');
      }
    }
    for (const std::string& line : wrap(printable(flowing), terminal.columns - indent)) {
      const Style style = row.words.empty() ? Style::kValue : Style::kFaint;
      text.append(lead).append(paint(terminal, style, line)).append("\n");
      lead = std::string(indent, ' ');
    }
  }
}

void add_rope(std::string& text, const Shown& shown, std::int64_t context,
              const Terminal& terminal) {
  const ModelRope& rope = *shown.rope;
  const std::string title = "Rope " + printable(rope.name);
  text.append(paint(terminal, Style::kTitle, title)).append("\n");
  add_table(text, describe(rope, shown.frequencies, context), terminal);

  const std::vector<PairWave> waves = pair_waves(rope, shown.frequencies);
  const auto chart = draw_chart(waves, rope.axes, rope.context.trained, terminal);
  if (!chart.empty()) {
    text.append("\n");
    add_paragraph(text, "Wavelength of each pair: positions for one full turn, logarithmic",
                  terminal, 2);
  }
  for (const std::string& line : chart) text.append("  ").append(line).append("\n");
  text.append("\n");
  for (const std::string& sentence : explain_waves(waves, rope.context.trained)) {
    add_paragraph(text, sentence, terminal, 2);
  }
  if (!rope.assumed.empty() || !rope.warnings.empty()) text.append("\n");
  add_remarks(text, "assumed", rope.assumed, terminal);
  add_remarks(text, "warning", rope.warnings, terminal);
}

std::string longest_wave(const Shown& shown) {
  double longest = 0.0;
  for (const PairWave& wave : pair_waves(*shown.rope, shown.frequencies)) {
    if (!wave.stands_still()) longest = std::max(longest, wave.length);
  }
  return longest > 0.0 ? brief(longest) : "-";
}

/// One line a rope, for models with several.
void add_comparison(std::string& text, const std::vector<Shown>& ropes, const Terminal& terminal) {
  Grid grid({"rope", "type", "theta", "turning", "trained", "slowest", "axes"});
  for (const Shown& shown : ropes) {
    const ModelRope& rope = *shown.rope;
    grid.add({printable(rope.name), std::string(name_of(rope.recipe.scaling)),
              number(rope.recipe.theta),
              fmt::format("{}/{}", shown.frequencies.rotary_dim(), rope.layout.head_dim),
              rope.context.trained > 0 ? fmt::format("{}", rope.context.trained) : "-",
              longest_wave(shown), printable(join(rope.axes, " "))});
  }
  text += grid.text(terminal);
}

std::string report(const Model& model, const std::vector<Shown>& ropes,
                   const InspectOptions& options, std::int64_t context) {
  const Terminal terminal = detect_terminal();
  std::string text =
      paint(terminal, Style::kTitle,
            model.model_type.empty() ? "model of unknown type" : printable(model.model_type)) +
      "  " + paint(terminal, Style::kFaint, printable(options.model)) + "\n";
  add_paragraph(text, kIntroduction, terminal, 0);
  if (ropes.size() > 1) {
    text += "\n";
    add_paragraph(
        text,
        fmt::format("This model has {} rotations, for different layers or parts. turning: "
                    "rotary dims of the head; slowest: positions for the slowest pair's turn.",
                    ropes.size()),
        terminal, 0);
    add_comparison(text, ropes, terminal);
  }
  for (const Shown& shown : ropes) {
    text += "\n";
    add_rope(text, shown, context, terminal);
  }
  return text;
}

Json report_json(const Model& model, const std::vector<Shown>& ropes, std::int64_t context) {
  Json json = {{"model_type", model.model_type}, {"ropes", Json::array()}};
  for (const Shown& shown : ropes) {
    json["ropes"].push_back(rope_json(*shown.rope, shown.frequencies, context));
  }
  return json;
}

void inspect(const InspectOptions& options) {
  const std::int64_t context = parse_context(options.context);
  const Model model = Model::read(options.model);
  std::vector<Shown> ropes;
  if (!options.rope.empty()) {
    const ModelRope& rope = model.rope(options.rope);
    ropes.push_back({&rope, rope.make_frequencies(context)});
  } else {
    for (const ModelRope& rope : model.ropes) {
      ropes.push_back({&rope, rope.make_frequencies(context)});
    }
  }
  print_out(options.json ? to_text(report_json(model, ropes, context))
                         : report(model, ropes, options, context));
}

}  // namespace

void add_inspect(CLI::App& app) {
  auto options = std::make_shared<InspectOptions>();
  CLI::App* verb = app.add_subcommand("inspect", "Show and explain the rotation of a model");
  verb->footer(kInspectFooter);
  verb->add_option("MODEL", options->model, "config.json, model folder or .gguf file")
      ->required()
      ->type_name("");
  verb->add_option("--context", options->context,
                   "Positions in use, for recipes that depend on the length")
      ->type_name("N");
  verb->add_option("--rope", options->rope, "Only the rope of this name")->type_name("NAME");
  verb->add_flag("--json", options->json, "Print JSON for a program");
  verb->callback([options] { inspect(*options); });
}

}  // namespace rotary::cli
