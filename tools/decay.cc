// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// rotary decay: how scores fall with the distance.
#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "console/output.h"
#include "explain/rope_json.h"
#include "explain/terminal.h"
#include "explain/text_layout.h"
#include "explain/text_rope.h"
#include "rotary/analysis.h"
#include "tools/commands.h"
#include "tools/rope_argument.h"

namespace rotary::cli {
namespace {

using explain::Json;
using explain::Terminal;

struct DecayOptions {
  RopeArgument rope;
  std::int64_t distances = 256;
  bool json = false;
};

constexpr const char* kDecayFooter =
    R"(bound   RoFormer's bound on the long-term decay (arXiv 2104.09864, section 3.4.3), divided by
        its value at distance 0. It bounds scores; it is not monotone.
score   the score of a query and an equal key, 1 at distance 0.
xPos is drawn with its growth, a receptive field (--json) with its two factors a and b.

Examples:
  rotary decay config.json
  rotary decay --dim 64 --base 10000 --distances 1024 --json)";

struct Curves {
  std::vector<double> distances;
  std::vector<double> bound;
  std::vector<double> score;
};

Curves compute_curves(const ModelRope& rope, const DecayOptions& options) {
  Curves curves;
  for (std::int64_t m = 0; m <= options.distances; ++m) {
    curves.distances.push_back(static_cast<double>(m));
  }
  const Frequencies f = rope.make_frequencies(context_or_trained(options.rope, rope));
  curves.bound = decay(f, curves.distances);
  curves.score = relative_scores(f, curves.distances);
  return curves;
}

/// A bar per column, the mean of the values that it covers, between `low` and `high`.
std::vector<std::string> draw_bars(const std::vector<double>& values, double low, double high,
                                   const Terminal& terminal) {
  constexpr std::size_t kRows = 8;
  const std::size_t columns = std::min(values.size(), terminal.columns - 12);
  std::vector<std::string> lines;
  for (std::size_t row = kRows; row-- > 0;) {
    const double step = (high - low) / kRows;
    std::string line =
        explain::pad_left(fmt::format("{:.2f}", low + step * static_cast<double>(row + 1)), 7);
    line += terminal.unicode ? " ┤" : " |";
    for (std::size_t c = 0; c < columns; ++c) {
      const std::size_t first = c * values.size() / columns;
      const std::size_t last = std::max(first + 1, (c + 1) * values.size() / columns);
      double mean = 0.0;
      for (std::size_t k = first; k < last; ++k) mean += values[k];
      mean /= static_cast<double>(last - first);
      const double filled = (mean - low) / step - static_cast<double>(row);
      static constexpr const char* kEighths[] = {" ", "▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
      if (terminal.unicode) {
        line += kEighths[static_cast<std::size_t>(std::clamp(filled, 0.0, 1.0) * 8.0)];
      } else {
        line += filled >= 0.5 ? '#' : ' ';
      }
    }
    lines.push_back(line);
  }
  return lines;
}

std::string decay_text(const Curves& curves, const ModelRope& rope, const DecayOptions& options) {
  const Terminal terminal = console::detect_terminal();
  std::string text =
      explain::paint(terminal, explain::Style::kTitle, title_of(options.rope, rope)) + "\n";
  const auto add = [&](const char* title, const std::vector<double>& values, double low) {
    text += fmt::format("{}\n", title);
    for (const std::string& line : draw_bars(values, low, 1.0, terminal)) text += line + "\n";
    text += fmt::format("{}distances 0 to {}\n\n", std::string(9, ' '), options.distances);
  };
  std::vector<double> bound = curves.bound;
  for (double& value : bound) value /= curves.bound.front();
  add("Bound on scores, relative to distance 0", bound, 0.0);
  const double lowest = *std::min_element(curves.score.begin(), curves.score.end());
  add("Score of equal vectors", curves.score, std::min(0.0, lowest));
  const auto at = std::min_element(curves.score.begin(), curves.score.end());
  return text + fmt::format("The score is smallest at distance {}: {:.4g}.\n",
                            at - curves.score.begin(), *at);
}

Json decay_json(const Curves& curves, const ModelRope& rope) {
  Json json = {{"rope", rope.name},
               {"distances", curves.distances},
               {"bound", curves.bound},
               {"score", curves.score}};
  if (std::holds_alternative<ReceptiveField>(rope.recipe.scaling)) {
    const ReceptiveFieldScores parts = receptive_field_scores(rope.recipe, curves.distances);
    json["receptive_field"] = {{"phi", parts.phi}, {"a", parts.a}, {"b", parts.b}};
  }
  return json;
}

void show_decay(const DecayOptions& options) {
  if (options.distances < 1 || options.distances > 1 << 20) {
    throw UsageError(
        fmt::format("--distances must be 1 to {}, got {}", 1 << 20, options.distances));
  }
  const ModelRope rope = explain::text_rope(read_rope(options.rope), "decay");
  const Curves curves = compute_curves(rope, options);
  console::print_out(options.json ? explain::to_text(decay_json(curves, rope))
                                  : decay_text(curves, rope, options));
}

}  // namespace

void add_decay(CLI::App& app) {
  auto options = std::make_shared<DecayOptions>();
  CLI::App* verb = app.add_subcommand("decay", "Show how scores fall with the distance");
  verb->footer(kDecayFooter);
  add_rope_argument(*verb, options->rope);
  verb->add_option("--distances", options->distances, "The last distance (256)")->type_name("N");
  verb->add_flag("--json", options->json, "Print JSON");
  verb->callback([options] { show_decay(*options); });
}

}  // namespace rotary::cli
