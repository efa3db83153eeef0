// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// rotary inspect: the rotation of a model, as a page of text or as JSON.
#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "console/output.h"
#include "explain/chart.h"
#include "explain/describe.h"
#include "explain/dialect.h"
#include "explain/format.h"
#include "explain/rope_json.h"
#include "explain/terminal.h"
#include "explain/text_layout.h"
#include "explain/text_table.h"
#include "explain/wavelengths.h"
#include "rotary/dialect.h"
#include "rotary/model.h"
#include "tools/arguments.h"
#include "tools/commands.h"

namespace rotary::cli {
namespace {

using explain::Json;
using explain::paint;
using explain::PairWavelength;
using explain::printable;
using explain::Style;
using explain::Terminal;

struct InspectOptions {
  std::string model;
  std::string context;
  std::string rope;
  std::optional<std::string> dialect;
  bool json = false;
};

constexpr const char* kInspectFooter =
    R"(MODEL is a Hugging Face config.json, a model folder, or a GGUF file.

Examples:
  rotary inspect config.json
  rotary inspect phi-3/ --context 131072     frequencies for a long context
  rotary inspect gemma-3/ --rope text.full_attention
  rotary inspect config.json --dialect vllm@0.32   as another framework reads it
  rotary inspect model.gguf --json | jq '.ropes[0].frequencies')";

constexpr const char* kIntroduction =
    "Rotary position embedding rotates pairs of elements of every query and key by an angle "
    "proportional to the token's position. Each pair has its own frequency. Attention scores then "
    "depend on the distance between tokens.";

/// A rope and its frequencies for the requested context.
struct InspectedRope {
  const ModelRope* rope;
  Frequencies frequencies;
  const DialectRope* dialect = nullptr;  // null without --dialect
};

void add_paragraph(std::string& text, const std::string& paragraph, const Terminal& terminal,
                   std::size_t indent) {
  for (const std::string& line : explain::wrap(paragraph, terminal.columns - indent)) {
    text.append(indent, ' ').append(line).append("\n");
  }
}

/// "warning: text", wrapped with a hanging indent.
void add_remarks(std::string& text, const std::string& label,
                 const std::vector<std::string>& remarks, const Terminal& terminal) {
  const std::size_t indent = label.size() + 4;
  for (const std::string& remark : remarks) {
    std::string lead = "  " + paint(terminal, Style::kWarning, label + ":") + " ";
    for (const std::string& line : explain::wrap(printable(remark), terminal.columns - indent)) {
      text.append(lead).append(line).append("\n");
      lead = std::string(indent, ' ');
    }
  }
}

void add_table(std::string& text, const std::vector<explain::Property>& properties,
               const Terminal& terminal) {
  constexpr std::size_t kNameWidth = 17;
  std::size_t value_width = 0;
  for (const explain::Property& property : properties) {
    if (!property.meaning.empty())
      value_width = std::max(value_width, explain::width_of(property.value));
  }
  value_width = std::min<std::size_t>(value_width, 24) + 2;
  for (const explain::Property& property : properties) {
    const std::size_t indent = 2 + kNameWidth + (property.meaning.empty() ? 0 : value_width);
    const std::string& wrapped = property.meaning.empty() ? property.value : property.meaning;
    std::string lead =
        "  " + paint(terminal, Style::kFaint, explain::pad(property.name, kNameWidth));
    if (!property.meaning.empty()) {
      lead += paint(terminal, Style::kValue, explain::pad(printable(property.value), value_width));
      // A value wider than its column moves its meaning to the next line.
      if (explain::width_of(property.value) + 2 > value_width) {
        text.append(lead).append("\n");
        lead = std::string(indent, ' ');
      }
    }
    for (const std::string& line : explain::wrap(printable(wrapped), terminal.columns - indent)) {
      const Style style = property.meaning.empty() ? Style::kValue : Style::kFaint;
      text.append(lead).append(paint(terminal, style, line)).append("\n");
      lead = std::string(indent, ' ');
    }
  }
}

void add_rope(std::string& text, const InspectedRope& shown, std::int64_t context,
              const Terminal& terminal) {
  const ModelRope& rope = *shown.rope;
  const std::string title = "Rope " + printable(rope.name);
  text.append(paint(terminal, Style::kTitle, title)).append("\n");
  std::vector<explain::Property> properties = explain::describe(rope, shown.frequencies, context);
  if (shown.dialect != nullptr) explain::add_dialect(properties, *shown.dialect);
  add_table(text, properties, terminal);

  const std::vector<PairWavelength> pairs = explain::pair_wavelengths(rope, shown.frequencies);
  const auto chart = explain::draw_chart(pairs, rope.axes, rope.context.trained, terminal);
  if (!chart.empty()) {
    text.append("\n");
    add_paragraph(text, "Wavelength of each pair: positions per full turn, logarithmic scale",
                  terminal, 2);
  }
  for (const std::string& line : chart) text.append("  ").append(line).append("\n");
  text.append("\n");
  for (const std::string& sentence : explain::explain_wavelengths(pairs, rope.context.trained)) {
    add_paragraph(text, sentence, terminal, 2);
  }
  if (!rope.assumed.empty() || !rope.warnings.empty()) text.append("\n");
  add_remarks(text, "assumed", rope.assumed, terminal);
  add_remarks(text, "warning", rope.warnings, terminal);
}

std::string longest_wavelength(const InspectedRope& shown) {
  double longest = 0.0;
  for (const PairWavelength& pair : explain::pair_wavelengths(*shown.rope, shown.frequencies)) {
    if (pair.rotates()) longest = std::max(longest, pair.wavelength);
  }
  return longest > 0.0 ? explain::format_si(longest) : "-";
}

/// One line per rope, for models with several.
void add_comparison(std::string& text, const std::vector<InspectedRope>& ropes,
                    const Terminal& terminal) {
  explain::TextTable table({"rope", "type", "theta", "rotated", "trained", "longest", "axes"});
  for (const InspectedRope& shown : ropes) {
    const ModelRope& rope = *shown.rope;
    table.add_row({printable(rope.name), std::string(name_of(rope.recipe.scaling)),
                   explain::format_number(rope.recipe.theta),
                   fmt::format("{}/{}", shown.frequencies.rotary_dim(), rope.layout.head_dim),
                   rope.context.trained > 0 ? fmt::format("{}", rope.context.trained) : "-",
                   longest_wavelength(shown), printable(explain::join(rope.axes, " "))});
  }
  text += table.text(terminal);
}

std::string report(const Model& model, const std::vector<InspectedRope>& ropes,
                   const InspectOptions& options, const DialectModel* dialect,
                   std::int64_t context) {
  const Terminal terminal = console::detect_terminal();
  std::string text =
      paint(terminal, Style::kTitle,
            model.model_type.empty() ? "model of unknown type" : printable(model.model_type)) +
      "  " + paint(terminal, Style::kFaint, printable(options.model)) + "\n";
  add_paragraph(text, kIntroduction, terminal, 0);
  if (dialect != nullptr) {
    text += "\n";
    add_paragraph(text, explain::dialect_sentences(dialect->dialect), terminal, 0);
  }
  if (ropes.size() > 1) {
    text += "\n";
    add_paragraph(
        text,
        fmt::format(
            "This model has {} ropes, for different layers or parts. rotated: rotary_dim of "
            "head_dim; longest: the longest wavelength in positions.",
            ropes.size()),
        terminal, 0);
    add_comparison(text, ropes, terminal);
  }
  for (const InspectedRope& shown : ropes) {
    text += "\n";
    add_rope(text, shown, context, terminal);
  }
  return text;
}

Json report_json(const Model& model, const std::vector<InspectedRope>& ropes,
                 const DialectModel* dialect, std::int64_t context) {
  Json json = {{"model_type", model.model_type}, {"ropes", Json::array()}};
  for (const InspectedRope& shown : ropes) {
    Json rope = explain::rope_json(*shown.rope, shown.frequencies, context);
    if (shown.dialect != nullptr) explain::add_dialect(rope, *shown.dialect);
    json["ropes"].push_back(rope);
  }
  if (dialect != nullptr) json["dialect"] = dialect->dialect.full_name();
  return json;
}

void inspect(const InspectOptions& options) {
  const std::int64_t context = parse_context(options.context);
  std::optional<DialectModel> dialect;
  Model model;
  if (!options.dialect) {
    model = Model::read(options.model);
  } else {
    dialect = read_dialect(options.model, *options.dialect);
    model.model_type = dialect->model_type;
    for (const DialectRope& rope : dialect->ropes) model.ropes.push_back(rope.rope);
  }
  const ModelRope* only = options.rope.empty() ? nullptr : &model.rope(options.rope);
  std::vector<InspectedRope> ropes;
  for (std::size_t i = 0; i < model.ropes.size(); ++i) {
    const ModelRope& rope = model.ropes[i];
    if (only != nullptr && only != &rope) continue;
    if (dialect) {
      ropes.push_back({&rope, dialect->ropes[i].make_frequencies(context), &dialect->ropes[i]});
    } else {
      ropes.push_back({&rope, rope.make_frequencies(context)});
    }
  }
  const DialectModel* shown = dialect ? &*dialect : nullptr;
  console::print_out(options.json ? explain::to_text(report_json(model, ropes, shown, context))
                                  : report(model, ropes, options, shown, context));
}

}  // namespace

void add_inspect(CLI::App& app) {
  auto options = std::make_shared<InspectOptions>();
  CLI::App* verb = app.add_subcommand("inspect", "Show and explain the rotation of a model");
  verb->footer(kInspectFooter);
  verb->add_option("MODEL", options->model, "config.json, model folder or .gguf file")
      ->required()
      ->type_name("");
  verb->add_option("--context", options->context, "Context in use, for recipes that depend on it")
      ->type_name("N");
  verb->add_option("--rope", options->rope, "Only the rope of this name")->type_name("NAME");
  verb->add_option("--dialect", options->dialect, "As this framework reads it, such as vllm@0.32")
      ->type_name("NAME");
  verb->add_flag("--json", options->json, "Print JSON");
  verb->callback([options] { inspect(*options); });
}

}  // namespace rotary::cli
