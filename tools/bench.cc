// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// rotary bench: time of a rotation against a copy of the same bytes.
#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <charconv>
#include <cstddef>
#include <cstdint>
#include <fstream>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

#include "console/output.h"
#include "console/progress_bar.h"
#include "explain/text_layout.h"
#include "rotary/cpu.h"
#include "tools/bench_orders.h"
#include "tools/bench_report.h"
#include "tools/commands.h"
#include "tools/measure/measurement.h"
#include "tools/measure/order_measurement.h"
#include "tools/measure/parallel.h"
#include "tools/measure/shape.h"
#include "tools/measure/workload.h"

namespace rotary::cli {
namespace {

struct BenchOptions {
  std::string dtypes = "fp32,bf16,fp16";
  std::string shapes = "decode,cached,prefill,batch";
  std::string threads;
  std::string target;
  std::string out;
  bool orders = false;
  bool json = false;
  bool quick = false;
};

constexpr const char* kBenchFooter =
    R"(Shapes: decode 1x(32+8)x128, cached 64x(32+8)x128, prefill 4096x(32+8)x128,
batch 8x512x(12+12)x64, or any [BATCHx]TOKENSxQ+KxDIM with Q query heads and K key heads.

q and k are rotated in one call. The same bytes are also copied (memcpy) and scaled
(a[i] *= s) in the same run, interleaved with the rotations, on the same memory and threads.
Times are medians; the spread is the interquartile range. Close other programs first.

Examples:
  rotary bench                              all shapes and types, less than a minute
  rotary bench --shape prefill --dtype bf16 --threads 1
  rotary bench --shape 2048x16+4x128 --quick
  rotary bench --target AVX2                as on a machine without AVX-512
  rotary bench --orders --threads 1         every order of writing results, and which is best
  rotary bench --json | jq '.rows[] | select(.tokens == 1)')";

constexpr int kMaxThreads = 1024;

/// What is measured.
struct BenchPlan {
  std::vector<measure::Shape> shapes;
  std::vector<DType> dtypes;
  std::vector<int> threads;
  bool quick = false;
};

/// Parses a comma-separated list without repetitions. Throws UsageError where `parse` fails.
template <typename T, typename Parse>
std::vector<T> parse_list(std::string_view option, std::string_view text, std::string_view expected,
                          const Parse& parse) {
  std::vector<T> list;
  while (true) {
    const std::size_t end = std::min(text.find(','), text.size());
    const auto value = parse(text.substr(0, end));
    if (!value) {
      throw UsageError(
          fmt::format("{} must be {}, got '{}'", option, expected, text.substr(0, end)));
    }
    if (std::find(list.begin(), list.end(), *value) == list.end()) list.push_back(*value);
    if (end == text.size()) return list;
    text.remove_prefix(end + 1);
  }
}

std::optional<int> parse_threads(std::string_view text) {
  int value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size()) return {};
  if (value < 1 || value > kMaxThreads) return {};
  return value;
}

BenchPlan make_plan(const BenchOptions& options) {
  BenchPlan plan;
  plan.shapes = parse_list<measure::Shape>(
      "--shape", options.shapes,
      "decode, cached, prefill, batch or TOKENSxQ+KxDIM (DIM even, at most 2^28 elements)",
      measure::parse_shape);
  plan.dtypes = parse_list<DType>("--dtype", options.dtypes, "of fp32, bf16, fp16, fp64",
                                  measure::parse_dtype);
  if (!options.threads.empty()) {
    plan.threads =
        parse_list<int>("--threads", options.threads, "an integer from 1 to 1024", parse_threads);
  } else {
    plan.threads = {1};
    if (measure::max_threads() > 1) plan.threads.push_back(measure::max_threads());
  }
  plan.quick = options.quick;
  return plan;
}

void choose_target(const std::string& target) {
  if (target.empty()) return;
  const std::vector<std::string_view> known = cpu_targets();
  if (std::find(known.begin(), known.end(), target) == known.end()) {
    throw UsageError(fmt::format("--target must be one that this machine supports ({}), got '{}'",
                                 explain::join({known.begin(), known.end()}, ", "), target));
  }
  use_cpu_target(target);
}

/// Seconds per shape and type: three quarters of a minute in total for the default shapes and types
/// on two thread counts. Large shapes take most of it.
measure::Effort effort_for(const measure::Shape& shape, DType dtype, bool quick) {
  if (quick) return {.seconds = 0.0, .min_repetitions = 3};
  constexpr double kBytesPerSecond = 12e6;
  const auto bytes = shape.elements() * static_cast<std::int64_t>(size_of(dtype));
  switch (measure::regime_of(shape)) {
    case measure::Regime::kDecode:
      return {.seconds = 0.2};
    case measure::Regime::kInCache:
      return {.seconds = 0.4};
    default:
      return {.seconds = std::clamp(static_cast<double>(bytes) / kBytesPerSecond, 2.5, 6.0)};
  }
}

/// Calls measure_group(workload, threads, effort, progress) for every shape, type and number of
/// threads of the plan.
template <typename MeasureGroup>
void for_each_group(const BenchPlan& plan, const MeasureGroup& measure_group) {
  // Progress counts the milliseconds that each group may take.
  const auto weight_of = [&plan](const measure::Shape& shape, DType dtype) {
    return 1000.0 * std::max(effort_for(shape, dtype, plan.quick).seconds, 0.1);
  };
  double total = 0.0;
  for (const measure::Shape& shape : plan.shapes) {
    for (const DType dtype : plan.dtypes) {
      total += weight_of(shape, dtype) * static_cast<double>(plan.threads.size());
    }
  }
  console::ProgressBar progress("measuring", static_cast<std::int64_t>(total));
  double done = 0.0;

  for (const measure::Shape& shape : plan.shapes) {
    for (const DType dtype : plan.dtypes) {
      const measure::Workload workload(shape, dtype);
      for (const int threads : plan.threads) {
        const auto update = [&](double fraction) {
          progress.update(static_cast<std::int64_t>(done + fraction * weight_of(shape, dtype)));
        };
        measure_group(workload, threads, effort_for(shape, dtype, plan.quick), update);
        done += weight_of(shape, dtype);
      }
    }
  }
}

std::vector<measure::Measurement> measure_all(const BenchPlan& plan) {
  std::vector<measure::Measurement> rows;
  for_each_group(plan, [&](const measure::Workload& workload, int threads,
                           const measure::Effort& effort, const auto& progress) {
    const std::vector<measure::Measurement> group =
        measure::measure_variants(workload, threads, effort, progress);
    rows.insert(rows.end(), group.begin(), group.end());
  });
  return rows;
}

std::vector<measure::OrderMeasurement> measure_all_orders(const BenchPlan& plan) {
  std::vector<measure::OrderMeasurement> calls;
  for_each_group(plan, [&](const measure::Workload& workload, int threads, measure::Effort effort,
                           const auto& progress) {
    const std::vector<measure::Variant> variants = measure::order_variants_of(workload.dtype());
    const auto count = static_cast<double>(variants.size());
    effort.seconds /= count;
    for (std::size_t i = 0; i < variants.size(); ++i) {
      const auto update = [&](double fraction) {
        progress((static_cast<double>(i) + fraction) / count);
      };
      calls.push_back(measure::measure_orders(workload, variants[i], threads, effort, update));
    }
  });
  return calls;
}

/// Throws if the file cannot be written; std::ios::app checks that without changing it.
std::ofstream open_out(const std::string& path, std::ios::openmode mode) {
  std::ofstream file(path, mode);
  if (!file) throw std::runtime_error("cannot write '" + path + "'");
  return file;
}

void print(const BenchOptions& options, const std::string& json, const std::string& text) {
  if (!options.out.empty()) {
    std::ofstream file = open_out(options.out, std::ios::trunc);
    file << json << std::flush;
    if (!file) throw std::runtime_error("cannot write '" + options.out + "'");
  }
  console::print_out(options.json ? json : text);
}

void bench(const BenchOptions& options) {
  const BenchPlan plan = make_plan(options);
  choose_target(options.target);
  // Reported before the measurement; an existing file is kept until there are results.
  if (!options.out.empty()) open_out(options.out, std::ios::app);

  if (options.orders) {
    const std::vector<measure::OrderMeasurement> calls = measure_all_orders(plan);
    return print(options, orders_json(calls), orders_text(calls, console::detect_terminal()));
  }
  const std::vector<measure::Measurement> rows = measure_all(plan);
  print(options, bench_json(rows), bench_text(rows, console::detect_terminal()));
}

}  // namespace

void add_bench(CLI::App& app) {
  auto options = std::make_shared<BenchOptions>();
  CLI::App* verb =
      app.add_subcommand("bench", "Measure the rotation against a copy of the same bytes");
  verb->footer(kBenchFooter);
  verb->add_option("--shape", options->shapes, "Shapes, separated by commas")->type_name("SHAPE");
  verb->add_option("--dtype", options->dtypes, "fp32,bf16,fp16 (default), or fp64")
      ->type_name("TYPE");
  verb->add_option("--threads", options->threads, "Numbers of threads; default: 1 and all")
      ->type_name("N");
  verb->add_option("--target", options->target, "SIMD target; default: the best of this machine")
      ->type_name("NAME");
  verb->add_flag("--orders", options->orders, "Measure every order of writing results instead");
  verb->add_option("--out", options->out, "Also write the JSON to this file")->type_name("FILE");
  verb->add_flag("--quick", options->quick, "Few repetitions: rough figures in seconds");
  verb->add_flag("--json", options->json, "Print JSON");
  verb->callback([options] { bench(*options); });
}

}  // namespace rotary::cli
