// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

#include "explain/dialect_report.h"

#include <fmt/core.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "explain/format.h"
#include "explain/text_layout.h"
#include "explain/text_table.h"
#include "rotary/model.h"

namespace rotary::explain {
namespace {

std::string keys_text(const std::vector<std::string>& keys) {
  return keys.empty() ? "none" : printable(join(keys, ", "));
}

std::string differing_pairs(const DialectDifference& d) {
  if (!d.comparable) return "not comparable";
  if (d.pairs.empty()) return "none";
  return fmt::format("{} ({}), by up to {:.3g} % at pair {}", format_ranges(d.pairs),
                     plural(static_cast<std::int64_t>(d.pairs.size()), "pair"), 100.0 * d.relative,
                     d.relative_pair);
}

void add_rope(std::string& text, const DialectDifference& d, const Terminal& terminal) {
  const auto add = [&text](std::string_view name, const std::string& value) {
    text.append("  ").append(pad(name, 26)).append(value).append("\n");
  };
  text += "\n" + paint(terminal, Style::kTitle, "Rope " + printable(d.name)) + "\n";
  if (!d.refused.empty()) {
    text += "  " + d.notice + "\n";
    return;
  }
  add("keys dropped by A", keys_text(d.dropped_by_a));
  add("keys dropped by B", keys_text(d.dropped_by_b));
  add("factor on cos and sin",
      fmt::format("A {}, B {}", format_number(d.scale_a), format_number(d.scale_b)));
  add("scores, B over A", format_number(d.score_factor));
  add("pairs that differ", differing_pairs(d));
  add("phases differ by 0.1 rad",
      d.position ? fmt::format("from position {}", *d.position) : std::string("never"));
  add("keys in the cache", fmt::format("A {}, B {}: {}", name_of(d.cache_a), name_of(d.cache_b),
                                       d.cache_compatible ? "compatible" : "not compatible"));
  for (const std::string& line : wrap(d.notice, terminal.columns)) text += line + "\n";
}

/// The row of `--all` for one dialect.
std::vector<std::string> row_of(const std::string& name, const DialectDifference& d) {
  if (!d.refused.empty()) return {name, "refused", "-", "-", "-", "-"};
  std::string differing = "=";
  if (!d.comparable) {
    differing = "other";
  } else if (!d.pairs.empty()) {
    differing = fmt::format("{:.3g} % at {}", 100.0 * d.relative, d.relative_pair);
  }
  return {name,
          format_number(d.scale_b),
          d.score_factor == 1.0 ? "=" : fmt::format("x{:.4g}", d.score_factor),
          differing,
          d.position ? fmt::format("{}", *d.position) : "-",
          d.cache_compatible ? "same" : "other"};
}

/// The table of one rope, then who drops or refuses what: lists that would not fit into a column.
void add_all_dialects(std::string& text, const std::vector<DialectPair>& pairs, std::size_t rope,
                      const Terminal& terminal) {
  TextTable table({"dialect", "factor", "scores", "pairs", "from", "cache"});
  std::vector<std::pair<std::string, std::string>> remarks;  // what, and who
  for (const DialectPair& pair : pairs) {
    if (rope >= pair.ropes.size()) continue;  // this version of hf has fewer
    const DialectDifference& d = pair.ropes[rope];
    const std::string name = pair.b.full_name();
    table.add_row(row_of(name, d));
    if (d.refused.empty() && d.dropped_by_b.empty()) continue;
    const std::string what = d.refused.empty() ? "dropped: " + keys_text(d.dropped_by_b)
                                               : "refused: " + printable(d.refused);
    const auto known = std::find_if(remarks.begin(), remarks.end(),
                                    [&what](const auto& remark) { return remark.first == what; });
    if (known == remarks.end()) {
      remarks.emplace_back(what, name);
    } else {
      known->second += ", " + name;
    }
  }
  text += table.text(terminal);
  for (const auto& [what, who] : remarks) {
    std::size_t indent = 2;
    const std::string remark = fmt::format("{} ({})", what, who);
    for (const std::string& line : wrap(remark, terminal.columns - 4)) {
      text.append(indent, ' ').append(line).append("\n");
      indent = 4;
    }
  }
}

}  // namespace

bool DialectPair::is_same() const {
  return std::all_of(ropes.begin(), ropes.end(),
                     [](const DialectDifference& rope) { return rope.is_same(); });
}

DialectPair compare_models(const DialectModel& a, const DialectModel& b, std::string_view rope,
                           std::int64_t context) {
  DialectPair pair{.a = a.dialect, .b = b.dialect, .ropes = {}};
  for (std::size_t i = 0; i < std::min(a.ropes.size(), b.ropes.size()); ++i) {
    if (!rope.empty() && a.ropes[i].rope.name != rope) continue;
    pair.ropes.push_back(compare_dialects(a.ropes[i], b.ropes[i], context));
  }
  if (pair.ropes.empty()) {
    Model model;
    for (const DialectRope& each : a.ropes) model.ropes.push_back(each.rope);
    static_cast<void>(model.rope(rope));  // its error lists the names
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
  for (const DialectDifference& rope : pair.ropes) json["ropes"].push_back(difference_json(rope));
  return json;
}

std::string pair_text(const DialectPair& pair, std::string_view title, const Terminal& terminal) {
  std::string text = title.empty() ? std::string() : printable(title) + "\n";
  const auto add_side = [&text](std::string_view side, const Dialect& dialect) {
    text += fmt::format("{}  {}  {} ({})\n", side, dialect.full_name(), dialect.source,
                        dialect.evidence);
  };
  add_side("A", pair.a);
  add_side("B", pair.b);
  for (const DialectDifference& rope : pair.ropes) add_rope(text, rope, terminal);
  return text;
}

std::string pairs_text(const std::vector<DialectPair>& pairs, std::string_view title,
                       const Terminal& terminal) {
  std::string text = printable(title) + ", against " + pairs.front().a.full_name() + "\n";
  const std::size_t ropes = pairs.front().ropes.size();
  for (std::size_t i = 0; i < ropes; ++i) {
    if (ropes > 1) {
      const std::string name = "Rope " + printable(pairs.front().ropes[i].name);
      text += "\n" + paint(terminal, Style::kTitle, name) + "\n";
    }
    add_all_dialects(text, pairs, i, terminal);
  }
  return text;
}

}  // namespace rotary::explain
