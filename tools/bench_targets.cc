// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

#include "tools/bench_targets.h"

#include <fmt/core.h>

#include <optional>

#include "explain/format.h"

namespace rotary::cli {
namespace {

using measure::Measurement;
using measure::Placement;
using measure::Regime;
using measure::Tables;

std::string row_name(const Measurement& row) {
  return fmt::format("{} {} {} {} {}, {}", measure::name_of(row.shape),
                     measure::short_name_of(row.dtype), name_of(row.variant.pairing),
                     measure::name_of(row.variant.placement), measure::name_of(row.variant.tables),
                     explain::plural(row.threads, "thread"));
}

bool is_ready(const Measurement& row) { return row.variant.tables == Tables::kReady; }
bool is_in_place(const Measurement& row) { return row.variant.placement == Placement::kInPlace; }
bool is_in(const Measurement& row, Regime regime) {
  return measure::regime_of(row.shape) == regime;
}

/// Collects the results. measure(row) is none for rows that a target does not apply to.
class TargetChecker {
 public:
  explicit TargetChecker(const std::vector<Measurement>& rows) : rows_(rows) {}

  /// Checks a ratio; `limit` 0: report only. `unit` follows the number.
  template <typename Measure>
  void ratio(const std::string& name, double limit, std::string_view unit, const Measure& measure) {
    const auto [worst, row] = find_worst(measure);
    if (row == nullptr) return;
    // The rounded figure that is shown is the one that is checked.
    const std::string text = fmt::format("{:.2f}", worst);
    TargetResult target{name, text + std::string(unit), "", Outcome::kNoLimit, row_name(*row)};
    if (limit > 0.0) {
      target.limit = fmt::format("at most {:.2f}", limit);
      target.outcome = std::stod(text) <= limit ? Outcome::kMet : Outcome::kMissed;
    }
    targets.push_back(target);
  }

  /// Checks a time; `limit_ns` 0: report only.
  template <typename Measure>
  void time(const std::string& name, double limit_ns, const Measure& measure) {
    const auto [worst, row] = find_worst(measure);
    if (row == nullptr) return;
    TargetResult target{name, explain::format_duration(worst), "", Outcome::kNoLimit,
                        row_name(*row)};
    if (limit_ns > 0.0) {
      target.limit = "at most " + explain::format_duration(limit_ns);
      target.outcome = worst <= limit_ns ? Outcome::kMet : Outcome::kMissed;
    }
    targets.push_back(target);
  }

  std::vector<TargetResult> targets;

 private:
  struct Worst {
    double value = 0.0;
    const Measurement* row = nullptr;
  };

  template <typename Measure>
  Worst find_worst(const Measure& measure) const {
    Worst worst;
    for (const Measurement& row : rows_) {
      const std::optional<double> value = measure(row);
      if (value && (worst.row == nullptr || *value > worst.value)) worst = {*value, &row};
    }
    return worst;
  }

  const std::vector<Measurement>& rows_;
};

/// 16-bit conversions are cheap with AVX-512 and the bottleneck with NEON (one per cycle).
double half_precision_limit(DType dtype, std::string_view instructions) {
  if (instructions.starts_with("AVX3") || instructions.starts_with("AVX10")) return 1.2;
  if (instructions.starts_with("NEON")) return dtype == DType::kBFloat16 ? 2.1 : 3.1;
  return 0.0;
}

void check_float32(TargetChecker& checker) {
  const auto counts = [](const Measurement& row, Regime regime) {
    return row.dtype == DType::kFloat32 && is_ready(row) && is_in(row, regime);
  };
  using Value = std::optional<double>;
  checker.ratio("fp32 out of cache, out of place", 1.08, " x copy",
                [&](const Measurement& row) -> Value {
                  if (!counts(row, Regime::kOutOfCache) || is_in_place(row)) return {};
                  return row.times_copy;
                });
  checker.ratio("fp32 out of cache, in place", 1.05, " x scale",
                [&](const Measurement& row) -> Value {
                  if (!counts(row, Regime::kOutOfCache) || !is_in_place(row)) return {};
                  return row.times_scale;
                });
  checker.ratio("fp32 out of cache, interleaved", 1.08, " x half",
                [&](const Measurement& row) -> Value {
                  return counts(row, Regime::kOutOfCache) ? row.times_half : Value();
                });
  checker.ratio("fp32 in cache", 1.25, " x scale", [&](const Measurement& row) -> Value {
    if (!counts(row, Regime::kInCache)) return {};
    return row.times_scale;
  });
}

void check_half_precision(TargetChecker& checker, std::string_view instructions) {
  for (const DType dtype : {DType::kBFloat16, DType::kFloat16}) {
    const std::string name = fmt::format("{} out of cache", measure::short_name_of(dtype));
    checker.ratio(name, half_precision_limit(dtype, instructions), " x copy",
                  [&](const Measurement& row) -> std::optional<double> {
                    if (row.dtype != dtype || !is_ready(row)) return {};
                    if (!is_in(row, Regime::kOutOfCache)) return {};
                    return row.times_copy;
                  });
  }
}

void check_on_the_fly(TargetChecker& checker) {
  constexpr std::int64_t kHeads = 40;  // of an 8B model: 32 of q, 8 of k
  checker.ratio("out of cache, 40 heads, on the fly", 1.1, " x ready",
                [&](const Measurement& row) -> std::optional<double> {
                  if (!is_in(row, Regime::kOutOfCache) || row.shape.heads() != kHeads) return {};
                  return row.times_ready;
                });
}

/// One decoding step, including the public call, on a core like Neoverse-V1.
double decode_limit(DType dtype, Tables tables, std::string_view instructions) {
  const bool ready = tables == Tables::kReady;
  if (!instructions.starts_with("NEON")) return 0.0;
  if (dtype == DType::kFloat32) return ready ? 500.0 : 750.0;
  return dtype == DType::kBFloat16 ? (ready ? 950.0 : 1200.0) : 0.0;
}

void check_decode(TargetChecker& checker, std::string_view instructions) {
  for (const DType dtype : {DType::kFloat32, DType::kBFloat16, DType::kFloat16}) {
    for (const Tables tables : {Tables::kReady, Tables::kOnTheFly}) {
      checker.time(fmt::format("{} decode, {}", measure::short_name_of(dtype),
                               tables == Tables::kReady ? "tables ready" : "on the fly"),
                   decode_limit(dtype, tables, instructions),
                   [&](const Measurement& row) -> std::optional<double> {
                     if (!is_in(row, Regime::kDecode) || row.shape.all_tokens() != 1) return {};
                     if (row.dtype != dtype || row.variant.tables != tables) return {};
                     return row.rotate.ns;
                   });
    }
  }
}

}  // namespace

std::vector<TargetResult> check_targets(const std::vector<Measurement>& rows,
                                        std::string_view instructions) {
  TargetChecker checker(rows);
  check_float32(checker);
  check_half_precision(checker, instructions);
  check_on_the_fly(checker);
  check_decode(checker, instructions);
  return checker.targets;
}

}  // namespace rotary::cli
