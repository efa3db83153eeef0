// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// rotary precision: errors of cos and sin in float32, bfloat16 and fast math, by position.
#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "console/output.h"
#include "explain/rope_json.h"
#include "explain/terminal.h"
#include "explain/text_layout.h"
#include "explain/text_rope.h"
#include "explain/text_table.h"
#include "rotary/analysis.h"
#include "tools/commands.h"
#include "tools/rope_argument.h"

namespace rotary::cli {
namespace {

using explain::Json;

struct PrecisionOptions {
  RopeArgument rope;
  bool json = false;
};

constexpr const char* kPrecisionFooter =
    R"(The largest error of cos or sin over the pairs, at positions up to --context or the extended
context, for four ways to compute them:
  float32         frequency and angle in float32, as in most code
  bf16 table      the same; cos and sin stored in bfloat16
  bf16 angle      frequency and position in bfloat16: a model that was cast as a whole
  fast math       float32 angles reduced by one product with 1/(2 pi), as __sincosf does
`rotary rotate` and the library are exact: 1e-7 at any position up to 2^31.

Examples:
  rotary precision config.json
  rotary precision config.json --context 1048576 --json)";

using Method = std::pair<const char*, AngleMethod>;
constexpr std::array<Method, 4> kMethods{{{"float32", AngleMethod::kFloat32},
                                          {"bf16 table", AngleMethod::kBfloat16Table},
                                          {"bf16 angle", AngleMethod::kBfloat16Angle},
                                          {"fast math", AngleMethod::kFastMath}}};

/// 1, 15, 255, ..., 16^k - 1, and the last position. 2^k - 1 has the most bits.
std::vector<std::int64_t> positions_up_to(std::int64_t context) {
  std::vector<std::int64_t> positions{1};
  for (std::int64_t p = 16; p < context; p *= p < 4096 ? 16 : 4) positions.push_back(p - 1);
  if (positions.back() != context - 1 && context > 1) positions.push_back(context - 1);
  return positions;
}

std::string precision_text(const ModelRope& rope, const Frequencies& f,
                           const std::vector<std::int64_t>& positions,
                           const PrecisionOptions& options) {
  const explain::Terminal terminal = console::detect_terminal();
  std::vector<std::string> header{"position"};
  std::vector<std::vector<AngleError>> columns;
  for (const auto& [name, method] : kMethods) {
    header.emplace_back(name);
    columns.push_back(angle_errors(f, method, positions));
  }
  explain::TextTable table(header);
  for (std::size_t row = 0; row < positions.size(); ++row) {
    std::vector<std::string> cells{fmt::format("{}", positions[row])};
    for (const auto& column : columns) cells.push_back(fmt::format("{:.2g}", column[row].value));
    table.add_row(cells);
  }
  std::string text =
      explain::paint(terminal, explain::Style::kTitle, title_of(options.rope, rope)) +
      "\nLargest error of cos or sin over the pairs, by position\n" + table.text(terminal);
  const AngleError worst = columns.front().back();
  const std::string last = fmt::format(
      "At position {} the float32 angle of pair {} is off by {:.2g} rad. A value in bfloat16 has "
      "an "
      "error of up to 0.002 of its own.",
      positions.back(), worst.pair, worst.angle);
  for (const std::string& line : explain::wrap(last, terminal.columns)) text += line + "\n";
  return text;
}

Json precision_json(const ModelRope& rope, const Frequencies& f,
                    const std::vector<std::int64_t>& positions) {
  Json json = {{"rope", rope.name}, {"positions", positions}, {"methods", Json::array()}};
  for (const auto& [name, method] : kMethods) {
    std::vector<double> angles;
    std::vector<double> values;
    std::vector<std::int64_t> pairs;
    for (const AngleError& error : angle_errors(f, method, positions)) {
      angles.push_back(error.angle);
      values.push_back(error.value);
      pairs.push_back(error.pair);
    }
    json["methods"].push_back(
        Json{{"method", name}, {"angle_error", angles}, {"value_error", values}, {"pair", pairs}});
  }
  return json;
}

void show_precision(const PrecisionOptions& options) {
  const ModelRope rope = explain::text_rope(read_rope(options.rope), "precision");
  std::int64_t context = context_or_trained(options.rope, rope);
  if (options.rope.context.empty()) context = std::max(context, rope.context.extended);
  if (context > std::int64_t{1} << 40) {
    throw UsageError(fmt::format("--context must be at most 2^40, got {}", context));
  }
  const Frequencies f = rope.make_frequencies(context);
  const std::vector<std::int64_t> positions = positions_up_to(context);
  console::print_out(options.json ? explain::to_text(precision_json(rope, f, positions))
                                  : precision_text(rope, f, positions, options));
}

}  // namespace

void add_precision(CLI::App& app) {
  auto options = std::make_shared<PrecisionOptions>();
  CLI::App* verb =
      app.add_subcommand("precision", "Show errors of angles in low precision, by position");
  verb->footer(kPrecisionFooter);
  add_rope_argument(*verb, options->rope);
  verb->add_flag("--json", options->json, "Print JSON");
  verb->callback([options] { show_precision(*options); });
}

}  // namespace rotary::cli
