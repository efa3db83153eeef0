// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

#include "tools/diff_dialects.h"

#include <fmt/core.h>

#include <algorithm>
#include <string_view>

#include "console/output.h"
#include "explain/dialect.h"
#include "explain/format.h"
#include "explain/rope_json.h"
#include "explain/terminal.h"
#include "explain/text_layout.h"
#include "explain/text_table.h"
#include "rotary/dialect.h"
#include "rotary/model.h"
#include "tools/commands.h"

namespace rotary::cli {
namespace {

using explain::DialectDifference;
using explain::Json;
using explain::printable;

/// Two dialects of one model, rope by rope.
struct DialectPair {
  Dialect a;
  Dialect b;
  std::vector<DialectDifference> ropes;

  bool is_same() const {
    return std::all_of(ropes.begin(), ropes.end(),
                       [](const DialectDifference& rope) { return rope.is_same(); });
  }
};

DialectPair compare_pair(const DialectDiffOptions& options, const std::string& a,
                         const std::string& b) {
  const DialectModel first = read_dialect(options.model, a);
  const DialectModel second = read_dialect(options.model, b);
  DialectPair pair{.a = first.dialect, .b = second.dialect, .ropes = {}};
  for (std::size_t i = 0; i < first.ropes.size(); ++i) {
    if (!options.rope.empty() && first.ropes[i].rope.name != options.rope) continue;
    pair.ropes.push_back(
        explain::compare_dialects(first.ropes[i], second.ropes[i], options.context));
  }
  if (pair.ropes.empty()) {
    static_cast<void>(Model::read(options.model).rope(options.rope));  // its error lists the names
  }
  return pair;
}

Json pair_json(const DialectPair& pair) {
  Json json = {{"a", pair.a.full_name()},
               {"b", pair.b.full_name()},
               {"source", {{"a", pair.a.source}, {"b", pair.b.source}}},
               {"evidence", {{"a", pair.a.evidence}, {"b", pair.b.evidence}}},
               {"same", pair.is_same()},
               {"ropes", Json::array()}};
  for (const DialectDifference& rope : pair.ropes) {
    json["ropes"].push_back(explain::difference_json(rope));
  }
  return json;
}

std::string keys_text(const std::vector<std::string>& keys) {
  return keys.empty() ? "none" : printable(explain::join(keys, ", "));
}

std::string pairs_text(const DialectDifference& d) {
  if (!d.comparable) return "not comparable";
  if (d.pairs.empty()) return "none";
  return fmt::format("{} ({}), by up to {:.3g} % at pair {}", explain::format_ranges(d.pairs),
                     explain::plural(static_cast<std::int64_t>(d.pairs.size()), "pair"),
                     100.0 * d.relative, d.relative_pair);
}

std::string pair_text(const DialectPair& pair, const DialectDiffOptions& options) {
  const explain::Terminal terminal = console::detect_terminal();
  std::string text = printable(options.model) + "\n";
  const auto add_side = [&text](std::string_view side, const Dialect& dialect) {
    text += fmt::format("{}  {}  {} ({})\n", side, dialect.full_name(), dialect.source,
                        dialect.evidence);
  };
  add_side("A", pair.a);
  add_side("B", pair.b);
  for (const DialectDifference& d : pair.ropes) {
    const auto add = [&text](std::string_view name, const std::string& value) {
      text.append("  ").append(explain::pad(name, 26)).append(value).append("\n");
    };
    text +=
        "\n" + explain::paint(terminal, explain::Style::kTitle, "Rope " + printable(d.name)) + "\n";
    if (!d.refused.empty()) {
      text += "  " + d.notice + "\n";
      continue;
    }
    add("keys dropped by A", keys_text(d.dropped_by_a));
    add("keys dropped by B", keys_text(d.dropped_by_b));
    add("factor on cos and sin", fmt::format("A {}, B {}", explain::format_number(d.scale_a),
                                             explain::format_number(d.scale_b)));
    add("scores, B over A", explain::format_number(d.score_factor));
    add("pairs that differ", pairs_text(d));
    add("phases differ by 0.1 rad",
        d.position ? fmt::format("from position {}", *d.position) : std::string("never"));
    add("keys in the cache", fmt::format("A {}, B {}: {}", name_of(d.cache_a), name_of(d.cache_b),
                                         d.cache_compatible ? "compatible" : "not compatible"));
    for (const std::string& line : explain::wrap(d.notice, terminal.columns)) text += line + "\n";
  }
  return text;
}

std::string all_text(const std::vector<DialectPair>& pairs, const DialectDiffOptions& options) {
  const explain::Terminal terminal = console::detect_terminal();
  std::string text = printable(options.model) + ", against " + pairs.front().a.full_name() + "\n";
  const bool several = pairs.front().ropes.size() > 1;
  explain::TextTable table({"dialect", "factor", "scores", "pairs", "from", "cache", "dropped"});
  for (const DialectPair& pair : pairs) {
    for (const DialectDifference& d : pair.ropes) {
      const std::string name = pair.b.full_name() + (several ? " " + printable(d.name) : "");
      if (!d.refused.empty()) {
        table.add_row({name, "refused", "-", "-", "-", "-", d.refused});
        continue;
      }
      table.add_row({name, explain::format_number(d.scale_b),
                     d.score_factor == 1.0 ? "=" : fmt::format("x{:.4g}", d.score_factor),
                     d.pairs.empty()
                         ? "="
                         : fmt::format("{:.3g} % at {}", 100.0 * d.relative, d.relative_pair),
                     d.position ? fmt::format("{}", *d.position) : "-",
                     d.cache_compatible ? "same" : "other", keys_text(d.dropped_by_b)});
    }
  }
  return text + table.text(terminal);
}

}  // namespace

void diff_dialects(const DialectDiffOptions& options) {
  if (options.all == !options.dialects.empty() || options.dialects.size() > 2) {
    throw UsageError("give one --dialect, two of them, or --all");
  }
  if (options.all) {
    std::vector<DialectPair> pairs;
    const std::vector<Dialect> known = known_dialects();  // the newest hf first
    for (auto other = known.begin() + 1; other != known.end(); ++other) {
      pairs.push_back(compare_pair(options, "hf", other->full_name()));
    }
    Json json = {{"model", options.model}, {"dialects", Json::array()}};
    for (const DialectPair& pair : pairs) json["dialects"].push_back(pair_json(pair));
    return console::print_out(options.json ? explain::to_text(json) : all_text(pairs, options));
  }
  const bool two = options.dialects.size() == 2;
  const DialectPair pair =
      compare_pair(options, two ? options.dialects[0] : "hf", options.dialects.back());
  console::print_out(options.json ? explain::to_text(pair_json(pair)) : pair_text(pair, options));
}

}  // namespace rotary::cli
