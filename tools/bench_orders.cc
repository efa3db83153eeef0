// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

#include "tools/bench_orders.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <string_view>

#include "explain/format.h"
#include "explain/rope_json.h"
#include "explain/text_layout.h"
#include "explain/text_table.h"
#include "rotary/cpu.h"
#include "rotary/version.h"
#include "tools/measure/machine.h"

namespace rotary::cli {
namespace {

using explain::Json;
using explain::paint;
using explain::Style;
using explain::Terminal;
using measure::OrderMeasurement;
using measure::OrderTiming;

double rounded_to(double value, double units_per_one) {
  return std::round(value * units_per_one) / units_per_one;
}

Json order_json(const OrderMeasurement& call, std::size_t i) {
  const OrderTiming& timing = call.orders[i];
  return {{"shape", measure::name_of(call.shape)},
          {"dtype", measure::short_name_of(call.dtype)},
          {"pairing", name_of(call.variant.pairing)},
          {"placement", measure::name_of(call.variant.placement)},
          {"threads", call.threads},
          {"order", name_of(timing.order)},
          {"ns", rounded_to(timing.rotate.ns, 10)},
          {"copy_ns", rounded_to(call.copy.ns, 10)},
          {"spread", rounded_to(timing.rotate.spread, 1000)},
          {"times_copy", rounded_to(timing.times_copy, 1000)},
          {"times_best", rounded_to(timing.times_best, 1000)},
          {"is_chosen", i == call.chosen},
          {"is_best", i == call.best}};
}

std::string mark_of(const OrderMeasurement& call, std::size_t i) {
  if (i == call.chosen) return i == call.best ? "chosen, best" : "chosen";
  return i == call.best ? "best" : "";
}

std::string place_of(const OrderMeasurement& call) {
  switch (call.variant.placement) {
    case measure::Placement::kInPlace:
      return "in";
    case measure::Placement::kOutOfPlace:
      return "out";
    case measure::Placement::kUnaligned:
      break;
  }
  return "out+";
}

void add_call(explain::TextTable& table, const OrderMeasurement& call) {
  const auto cell = [](const std::string& text, std::size_t width) {
    return explain::pad_left(text, width);
  };
  for (std::size_t i = 0; i < call.orders.size(); ++i) {
    const OrderTiming& timing = call.orders[i];
    table.add_row({std::string(measure::short_name_of(call.dtype)),
                   std::string(name_of(call.variant.pairing)), place_of(call),
                   name_of(timing.order), cell(explain::format_duration(timing.rotate.ns), 8),
                   cell(fmt::format("{:.2f}", timing.times_copy), 6),
                   cell(fmt::format("{:.2f}", timing.times_best), 6), mark_of(call, i)});
  }
}

bool same_group(const OrderMeasurement& a, const OrderMeasurement& b) {
  return a.shape == b.shape && a.threads == b.threads;
}

std::string group_text(const std::vector<OrderMeasurement>& calls, const OrderMeasurement& first,
                       const Terminal& terminal) {
  explain::TextTable table(
      {"dtype", "pairing", "place", "order", "    time", "x copy", "x best", ""});
  for (const OrderMeasurement& call : calls) {
    if (same_group(call, first)) add_call(table, call);
  }
  const std::string title = fmt::format("{}, {}", measure::name_of(first.shape),
                                        explain::plural(first.threads, "thread"));
  return "\n" + paint(terminal, Style::kTitle, title) + "\n" + table.text(terminal);
}

/// Differences below this are not told from noise.
constexpr double kMinDifference = 1.03;

std::string summary_text(const std::vector<OrderMeasurement>& calls, const Terminal& terminal) {
  explain::TextTable table({"call", "chosen", "best", "off by"});
  std::size_t worse = 0;
  for (const OrderMeasurement& call : calls) {
    if (call.times_best() < kMinDifference) continue;
    ++worse;
    table.add_row({fmt::format("{} {} {} {}, {}", measure::short_name_of(call.shape),
                               measure::short_name_of(call.dtype), name_of(call.variant.pairing),
                               place_of(call), explain::plural(call.threads, "thread")),
                   name_of(call.orders[call.chosen].order), name_of(call.orders[call.best].order),
                   fmt::format("{:.0f} %", 100.0 * (call.times_best() - 1.0))});
  }
  std::string text = "\n" + paint(terminal, Style::kTitle, "The library's choice") + "\n";
  text += fmt::format("  within 3 % of the best order in {} of {} calls\n", calls.size() - worse,
                      calls.size());
  return worse == 0 ? text : text + table.text(terminal);
}

constexpr std::string_view kOrdersLegend =
    "Time of one call for q and k together in every write order, with ready tables: columns, lines "
    "or address, then the tokens of q that are written before the same tokens of k. x copy: ratio "
    "to a memcpy of the same bytes; x best: to the best order. place: in place, out of place to "
    "aligned memory, or (out+) to 16 bytes past a page. chosen: what the library takes. No order "
    "changes a result.";

}  // namespace

std::string orders_json(const std::vector<OrderMeasurement>& calls) {
  std::string text = fmt::format("{{\n  \"machine\": {},\n", Json(measure::machine_name()).dump());
  text += fmt::format("  \"version\": \"{}\",\n", ROTARY_VERSION_STRING);
  text += fmt::format("  \"target\": \"{}\",\n  \"orders\": [", cpu_target());
  std::string_view separator = "\n";
  for (const OrderMeasurement& call : calls) {
    for (std::size_t i = 0; i < call.orders.size(); ++i) {
      text.append(separator).append("    ").append(order_json(call, i).dump());
      separator = ",\n";
    }
  }
  return text + "\n  ]\n}\n";
}

std::string orders_text(const std::vector<OrderMeasurement>& calls, const Terminal& terminal) {
  std::string text = paint(terminal, Style::kTitle, "rotary " ROTARY_VERSION_STRING) + "  " +
                     explain::printable(measure::machine_name()) + "\n";
  for (const std::string& line : explain::wrap(kOrdersLegend, terminal.columns))
    text += line + "\n";
  std::vector<const OrderMeasurement*> groups;
  for (const OrderMeasurement& call : calls) {
    const auto same = [&call](const OrderMeasurement* other) { return same_group(call, *other); };
    if (std::none_of(groups.begin(), groups.end(), same)) groups.push_back(&call);
  }
  for (const OrderMeasurement* first : groups) text += group_text(calls, *first, terminal);
  return text + summary_text(calls, terminal);
}

}  // namespace rotary::cli
