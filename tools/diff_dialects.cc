// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

#include "tools/diff_dialects.h"

#include "console/output.h"
#include "explain/dialect_report.h"
#include "explain/rope_json.h"
#include "rotary/dialect.h"
#include "tools/commands.h"

namespace rotary::cli {
namespace {

using explain::DialectPair;
using explain::Json;

DialectPair compare(const DialectDiffOptions& options, const std::string& a, const std::string& b) {
  return explain::compare_models(read_dialect(options.model, a), read_dialect(options.model, b),
                                 options.rope, options.context);
}

}  // namespace

void diff_dialects(const DialectDiffOptions& options) {
  if (options.all == !options.dialects.empty() || options.dialects.size() > 2) {
    throw UsageError("give one --dialect, two of them, or --all");
  }
  const explain::Terminal terminal = console::detect_terminal();
  if (options.all) {
    const std::vector<Dialect> known = known_dialects();  // the newest hf first
    std::vector<DialectPair> pairs;
    for (auto other = known.begin() + 1; other != known.end(); ++other) {
      pairs.push_back(compare(options, "hf", other->full_name()));
    }
    Json json = {{"model", options.model}, {"dialects", Json::array()}};
    for (const DialectPair& pair : pairs) json["dialects"].push_back(explain::pair_json(pair));
    return console::print_out(options.json ? explain::to_text(json)
                                           : explain::pairs_text(pairs, options.model, terminal));
  }
  const bool two = options.dialects.size() == 2;
  const DialectPair pair =
      compare(options, two ? options.dialects[0] : "hf", options.dialects.back());
  console::print_out(options.json ? explain::to_text(explain::pair_json(pair))
                                  : explain::pair_text(pair, options.model, terminal));
}

}  // namespace rotary::cli
