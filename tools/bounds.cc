// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// rotary bounds: which contexts a base serves.
#include "explain/bounds.h"

#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "console/output.h"
#include "explain/format.h"
#include "explain/rope_json.h"
#include "explain/terminal.h"
#include "explain/text_layout.h"
#include "rotary/analysis.h"
#include "tools/commands.h"
#include "tools/rope_argument.h"

namespace rotary::cli {
namespace {

using explain::Bounds;

struct BoundsOptions {
  RopeArgument rope;
  bool json = false;
};

constexpr const char* kBoundsFooter =
    R"(Three measures of how far a base carries, for the context of --context or the trained one:
  critical dimension  dims of pairs that make a turn within the trained context (arXiv 2310.05209)
  sum of cosines      mean score of equal vectors, times the pairs; negative at some distance means
                      that a token there scores less than a random one (arXiv 2405.14591)
  smallest base       no base below it keeps that sum from being negative within the context; larger
                      ones may fail again. Proved, with bounds on every rounding error.

Examples:
  rotary bounds config.json
  rotary bounds config.json --context 131072
  rotary bounds --dim 128 --base 10000 --context 4096 --json)";

Bounds compute_bounds(const BoundsOptions& options) {
  ModelRope rope = read_rope(options.rope);
  const std::int64_t context = context_or_trained(options.rope, rope);
  if (context > 1 << 24) {
    throw UsageError(fmt::format("--context must be at most {}, got {}", 1 << 24, context));
  }
  return explain::compute_bounds(rope, rope.make_frequencies(context), context,
                                 explain::SmallestBase::kYes);
}

std::string base_text(const BaseBound& bound) {
  const std::string undecided =
      bound.undecided.empty() ? ""
                              : fmt::format(", but for {} undecided ranges of relative width 1e-9",
                                            bound.undecided.size());
  return bound.interval_proof
             ? fmt::format("{:.10g}; every base from 1 to {:.10g} fails{}", bound.base, bound.lower,
                           undecided)
             : fmt::format("{:.4g}; every base 1.01^k below fails{}", bound.base, undecided);
}

std::string verdict_of(const Bounds& b) {
  if (!b.smallest) return "";
  const double theta = b.rope.recipe.theta;
  if (!b.negative) {
    return fmt::format("The base {} serves {} positions.", explain::format_number(theta),
                       b.context);
  }
  return fmt::format(
      "The base {} does not serve {} positions: at distance {} the mean score of equal vectors is "
      "negative{}",
      explain::format_number(theta), b.context, *b.negative,
      theta > b.smallest->base ? ", although it is larger than the smallest base that does." : ".");
}

std::string bounds_text(const Bounds& b, const BoundsOptions& options) {
  const explain::Terminal terminal = console::detect_terminal();
  std::string text =
      explain::paint(terminal, explain::Style::kTitle, title_of(options.rope, b.rope)) + "\n";
  const auto add = [&text](std::string_view name, const std::string& value) {
    text.append("  ").append(explain::pad(name, 22)).append(value).append("\n");
  };
  add("base", explain::format_number(b.rope.recipe.theta));
  add("context", fmt::format("{}", b.context));
  add("critical dimension", fmt::format("{} of {}, for the trained context of {}", b.critical_dim,
                                        b.rope.recipe.rotary_dim, b.trained));
  const auto [fewest, most] = std::minmax_element(b.turns.begin(), b.turns.end());
  const auto complete =
      std::count_if(b.turns.begin(), b.turns.end(), [](double t) { return t >= 1.0; });
  add("turns in the context", fmt::format("{:.4g} to {:.4g}; {} of {} pairs make at least one",
                                          *fewest, *most, complete, b.turns.size()));
  if (b.minimum) {
    add("sum of cosines",
        fmt::format("at least {:.6g}, at distance {}", b.minimum->value, b.minimum->distance));
    add("first negative", b.negative ? fmt::format("at distance {}", *b.negative) : "none");
  } else {
    add("sum of cosines", "none: several axes or growth");
  }
  if (b.smallest) add("smallest base", base_text(*b.smallest));
  const std::string verdict = verdict_of(b);
  if (verdict.empty()) return text;
  text += "\n";
  for (const std::string& line : explain::wrap(verdict, terminal.columns)) text += line + "\n";
  return text;
}

}  // namespace

void add_bounds(CLI::App& app) {
  auto options = std::make_shared<BoundsOptions>();
  CLI::App* verb = app.add_subcommand("bounds", "Show which contexts a base serves, with proofs");
  verb->footer(kBoundsFooter);
  add_rope_argument(*verb, options->rope);
  verb->add_flag("--json", options->json, "Print JSON");
  verb->callback([options] {
    const Bounds bounds = compute_bounds(*options);
    console::print_out(options->json ? explain::to_text(explain::bounds_json(bounds))
                                     : bounds_text(bounds, *options));
  });
}

}  // namespace rotary::cli
