// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

#include "tools/bench_targets.h"

#include <fmt/core.h>

#include <functional>
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

/// A limit that depends on the row; 0: report only.
using Limit = std::function<double(const Measurement&)>;
Limit always(double limit) {
  return [limit](const Measurement&) { return limit; };
}

/// Collects the results. measure(row) is none for rows that a target does not apply to.
class TargetChecker {
 public:
  explicit TargetChecker(const std::vector<Measurement>& rows) : rows_(rows) {}

  /// Checks a ratio. `unit` follows the number.
  template <typename Measure>
  void ratio(const std::string& name, const Limit& limit_of, std::string_view unit,
             const Measure& measure) {
    const auto [worst, limit, row] = find_worst(limit_of, measure);
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

  /// Checks a time in ns.
  template <typename Measure>
  void time(const std::string& name, const Limit& limit_of, const Measure& measure) {
    const auto [worst, limit, row] = find_worst(limit_of, measure);
    if (row == nullptr) return;
    TargetResult target{name, explain::format_duration(worst), "", Outcome::kNoLimit,
                        row_name(*row)};
    if (limit > 0.0) {
      target.limit = "at most " + explain::format_duration(limit);
      target.outcome = worst <= limit ? Outcome::kMet : Outcome::kMissed;
    }
    targets.push_back(target);
  }

  std::vector<TargetResult> targets;

 private:
  struct Worst {
    double value = 0.0;
    double limit = 0.0;
    const Measurement* row = nullptr;
    double over_limit() const { return limit > 0.0 ? value / limit : value; }
  };

  /// The row that exceeds its limit most.
  template <typename Measure>
  Worst find_worst(const Limit& limit_of, const Measure& measure) const {
    Worst worst;
    for (const Measurement& row : rows_) {
      const std::optional<double> value = measure(row);
      if (!value) continue;
      const Worst found{*value, limit_of(row), &row};
      if (worst.row == nullptr || found.over_limit() > worst.over_limit()) worst = found;
    }
    return worst;
  }

  const std::vector<Measurement>& rows_;
};

bool is_neon(std::string_view instructions) { return instructions.starts_with("NEON"); }
bool is_half(const Measurement& row) { return row.variant.pairing == Pairing::kHalf; }

/// NEON: of a core like Neoverse-N1, against the copy, which does not read its destination there.
double float32_limit_on_neon(const Measurement& row) {
  switch (row.variant.placement) {
    case Placement::kInPlace:
      return is_half(row) ? 1.10 : 1.40;
    case Placement::kOutOfPlace:
      return is_half(row) ? 1.12 : 1.40;
    case Placement::kUnaligned:
      break;
  }
  return is_half(row) ? 1.42 : 1.55;
}

/// 16-bit conversions are cheap with AVX-512 and the bottleneck with NEON (without Armv8.6).
Limit half_precision_limit(DType dtype, std::string_view instructions) {
  if (instructions.starts_with("AVX3") || instructions.starts_with("AVX10")) return always(1.2);
  if (!is_neon(instructions)) return always(0.0);
  return [dtype](const Measurement& row) {
    if (dtype == DType::kBFloat16) return is_half(row) ? 4.1 : 4.4;
    return is_half(row) ? 3.6 : 3.9;
  };
}

void check_float32(TargetChecker& checker, std::string_view instructions) {
  const bool neon = is_neon(instructions);
  const auto counts = [](const Measurement& row, Regime regime) {
    return row.dtype == DType::kFloat32 && is_ready(row) && is_in(row, regime);
  };
  using Value = std::optional<double>;
  checker.ratio("fp32 out of cache, out of place",
                neon ? Limit(float32_limit_on_neon) : always(1.08), " x copy",
                [&](const Measurement& row) -> Value {
                  if (!counts(row, Regime::kOutOfCache) || is_in_place(row)) return {};
                  return row.times_copy;
                });
  checker.ratio("fp32 out of cache, in place", neon ? Limit(float32_limit_on_neon) : always(1.05),
                neon ? " x copy" : " x scale", [&](const Measurement& row) -> Value {
                  if (!counts(row, Regime::kOutOfCache) || !is_in_place(row)) return {};
                  return neon ? row.times_copy : row.times_scale;
                });
  checker.ratio("fp32 out of cache, interleaved", always(neon ? 0.0 : 1.08), " x half",
                [&](const Measurement& row) -> Value {
                  return counts(row, Regime::kOutOfCache) ? row.times_half : Value();
                });
  checker.ratio("fp32 in cache", always(neon ? 1.6 : 1.25), " x scale",
                [&](const Measurement& row) -> Value {
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
  checker.ratio("out of cache, 40 heads, on the fly", always(1.1), " x ready",
                [&](const Measurement& row) -> std::optional<double> {
                  if (!is_in(row, Regime::kOutOfCache) || row.shape.heads() != kHeads) return {};
                  return row.times_ready;
                });
}

/// One decoding step, including the public call. NEON: in place, half, as multiples of the scale
/// loop over as many float32; a 16-bit type has half the bytes.
Limit decode_limit(DType dtype, Tables tables, std::string_view instructions) {
  if (!is_neon(instructions) || dtype == DType::kFloat16) return always(0.0);
  const bool ready = tables == Tables::kReady;
  const double times_scale = dtype == DType::kFloat32 ? (ready ? 1.9 : 2.3) : 2.0 * 4.0;
  return [times_scale](const Measurement& row) {
    return is_half(row) && is_in_place(row) ? times_scale * row.scale.ns : 0.0;
  };
}

void check_decode(TargetChecker& checker, std::string_view instructions) {
  const bool neon = is_neon(instructions);
  for (const DType dtype : {DType::kFloat32, DType::kBFloat16, DType::kFloat16}) {
    for (const Tables tables : {Tables::kReady, Tables::kOnTheFly}) {
      checker.time(fmt::format("{} decode, {}", measure::short_name_of(dtype),
                               tables == Tables::kReady ? "tables ready" : "on the fly"),
                   decode_limit(dtype, tables, instructions),
                   [&](const Measurement& row) -> std::optional<double> {
                     if (!is_in(row, Regime::kDecode) || row.shape.all_tokens() != 1) return {};
                     if (row.dtype != dtype || row.variant.tables != tables) return {};
                     if (neon && !(is_half(row) && is_in_place(row))) return {};
                     return row.rotate.ns;
                   });
    }
  }
}

}  // namespace

std::vector<TargetResult> check_targets(const std::vector<Measurement>& rows,
                                        std::string_view instructions) {
  TargetChecker checker(rows);
  check_float32(checker, instructions);
  check_half_precision(checker, instructions);
  check_on_the_fly(checker);
  check_decode(checker, instructions);
  return checker.targets;
}

}  // namespace rotary::cli
