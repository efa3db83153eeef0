// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

#include "tools/bench_targets.h"

#include <fmt/core.h>

#include <optional>

#include "tools/words.h"

namespace rotary::cli {
namespace {

using measure::Placement;
using measure::Regime;
using measure::Row;
using measure::Tables;

std::string describe(const Row& row) {
  return fmt::format("{} {} {} {} {}, {}", measure::name_of(row.shape),
                     measure::short_name_of(row.dtype), name_of(row.variant.pairing),
                     measure::name_of(row.variant.placement), measure::name_of(row.variant.tables),
                     count_of(row.threads, "thread"));
}

bool is_ready(const Row& row) { return row.variant.tables == Tables::kReady; }
bool is_in_place(const Row& row) { return row.variant.placement == Placement::kInPlace; }
bool is_in(const Row& row, Regime regime) { return measure::regime_of(row.shape) == regime; }

/// Collects targets: measure(row) is nothing for rows that a target does not speak of.
class Judge {
 public:
  explicit Judge(const std::vector<Row>& rows) : rows_(rows) {}

  /// `limit` 0: none. `unit` follows the number.
  template <typename Measure>
  void ratio(const std::string& name, double limit, std::string_view unit, const Measure& measure) {
    const auto [worst, row] = find_worst(measure);
    if (row == nullptr) return;
    // The figure that is shown is the one that is judged.
    const std::string text = fmt::format("{:.2f}", worst);
    Target target{name, text + std::string(unit), "", Outcome::kNoLimit, describe(*row)};
    if (limit > 0.0) {
      target.limit = fmt::format("at most {:.2f}", limit);
      target.outcome = std::stod(text) <= limit ? Outcome::kMet : Outcome::kMissed;
    }
    targets.push_back(target);
  }

  /// A time; `limit_ns` 0: without a limit.
  template <typename Measure>
  void time(const std::string& name, double limit_ns, const Measure& measure) {
    const auto [worst, row] = find_worst(measure);
    if (row == nullptr) return;
    Target target{name, duration(worst), "", Outcome::kNoLimit, describe(*row)};
    if (limit_ns > 0.0) {
      target.limit = "at most " + duration(limit_ns);
      target.outcome = worst <= limit_ns ? Outcome::kMet : Outcome::kMissed;
    }
    targets.push_back(target);
  }

  std::vector<Target> targets;

 private:
  struct Worst {
    double value = 0.0;
    const Row* row = nullptr;
  };

  template <typename Measure>
  Worst find_worst(const Measure& measure) const {
    Worst worst;
    for (const Row& row : rows_) {
      const std::optional<double> value = measure(row);
      if (value && (worst.row == nullptr || *value > worst.value)) worst = {*value, &row};
    }
    return worst;
  }

  const std::vector<Row>& rows_;
};

/// Conversions to and from 16 bits cost little with AVX-512, and are the limit with NEON, whose
/// cores do one a cycle.
double limit_of_halves(DType dtype, std::string_view instructions) {
  if (instructions.starts_with("AVX3") || instructions.starts_with("AVX10")) return 1.2;
  if (instructions.starts_with("NEON")) return dtype == DType::kBFloat16 ? 2.1 : 3.1;
  return 0.0;
}

void judge_float32(Judge& judge) {
  const auto counts = [](const Row& row, Regime regime) {
    return row.dtype == DType::kFloat32 && is_ready(row) && is_in(row, regime);
  };
  using Value = std::optional<double>;
  judge.ratio("fp32 out of cache, out of place", 1.08, " x copy", [&](const Row& row) -> Value {
    if (!counts(row, Regime::kOutOfCache) || is_in_place(row)) return {};
    return row.times_copy;
  });
  judge.ratio("fp32 out of cache, in place", 1.05, " x scale", [&](const Row& row) -> Value {
    if (!counts(row, Regime::kOutOfCache) || !is_in_place(row)) return {};
    return row.times_scale;
  });
  judge.ratio("fp32 out of cache, interleaved", 1.08, " x half", [&](const Row& row) -> Value {
    return counts(row, Regime::kOutOfCache) ? row.times_half : Value();
  });
  judge.ratio("fp32 in cache", 1.25, " x scale", [&](const Row& row) -> Value {
    if (!counts(row, Regime::kInCache)) return {};
    return row.times_scale;
  });
}

void judge_halves(Judge& judge, std::string_view instructions) {
  for (const DType dtype : {DType::kBFloat16, DType::kFloat16}) {
    const std::string name = fmt::format("{} out of cache", measure::short_name_of(dtype));
    judge.ratio(name, limit_of_halves(dtype, instructions), " x copy",
                [&](const Row& row) -> std::optional<double> {
                  if (row.dtype != dtype || !is_ready(row)) return {};
                  if (!is_in(row, Regime::kOutOfCache)) return {};
                  return row.times_copy;
                });
  }
}

void judge_tables(Judge& judge) {
  constexpr std::int64_t kHeads = 40;  // of a current model of 8 billion parameters
  judge.ratio("out of cache, 40 heads, on the fly", 1.1, " x ready",
              [&](const Row& row) -> std::optional<double> {
                if (!is_in(row, Regime::kOutOfCache) || row.shape.heads() != kHeads) return {};
                return row.times_ready;
              });
}

/// Of one decoding step, the public call included, on a core of the class of Neoverse-V1.
double limit_of_decode(DType dtype, Tables tables, std::string_view instructions) {
  const bool ready = tables == Tables::kReady;
  if (!instructions.starts_with("NEON")) return 0.0;
  if (dtype == DType::kFloat32) return ready ? 500.0 : 750.0;
  return dtype == DType::kBFloat16 ? (ready ? 950.0 : 1200.0) : 0.0;
}

void judge_decode(Judge& judge, std::string_view instructions) {
  for (const DType dtype : {DType::kFloat32, DType::kBFloat16, DType::kFloat16}) {
    for (const Tables tables : {Tables::kReady, Tables::kOnTheFly}) {
      judge.time(fmt::format("{} decode, {}", measure::short_name_of(dtype),
                             tables == Tables::kReady ? "tables ready" : "on the fly"),
                 limit_of_decode(dtype, tables, instructions),
                 [&](const Row& row) -> std::optional<double> {
                   if (!is_in(row, Regime::kDecode) || row.shape.all_tokens() != 1) return {};
                   if (row.dtype != dtype || row.variant.tables != tables) return {};
                   return row.rotate.ns;
                 });
    }
  }
}

}  // namespace

std::vector<Target> judge(const std::vector<Row>& rows, std::string_view instructions) {
  Judge judge(rows);
  judge_float32(judge);
  judge_halves(judge, instructions);
  judge_tables(judge);
  judge_decode(judge, instructions);
  return judge.targets;
}

}  // namespace rotary::cli
