// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// rotary bench: how fast this machine rotates, next to copying the same bytes.
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

#include "bench/measure/parts.h"
#include "bench/measure/rows.h"
#include "bench/measure/shape.h"
#include "bench/measure/workbench.h"
#include "rotary/cpu.h"
#include "tools/bench_report.h"
#include "tools/cli.h"
#include "tools/progress.h"
#include "tools/terminal.h"
#include "tools/words.h"

namespace rotary::cli {
namespace {

struct Options {
  std::string dtypes = "fp32,bf16,fp16";
  std::string shapes = "decode,cached,prefill,batch";
  std::string threads;
  std::string target;
  std::string out;
  bool json = false;
  bool quick = false;
};

constexpr const char* kFooter =
    R"(Shapes: decode 1x(32+8)x128, cached 64x(32+8)x128, prefill 4096x(32+8)x128,
batch 8x512x(12+12)x64, or your own: [BATCHx]TOKENSxQ+KxDIM, Q heads of q and K of k.

q and k are rotated in one call. In the same run, on the same memory and threads, the same
bytes are copied (memcpy) and scaled (a[i] *= s), all in turns; times are medians, and the
spread is the distance of the quartiles. Close other programs first.

Examples:
  rotary bench                              everything, in less than a minute
  rotary bench --shape prefill --dtype bf16 --threads 1
  rotary bench --shape 2048x16+4x128 --quick
  rotary bench --target AVX2                as a machine without AVX-512 would
  rotary bench --json | jq '.rows[] | select(.tokens == 1)')";

constexpr int kMostThreads = 1024;

/// What is measured, and how long.
struct Plan {
  std::vector<measure::Shape> shapes;
  std::vector<DType> dtypes;
  std::vector<int> threads;
  bool quick = false;
};

/// The parts between commas, each parsed; what `parse` does not know is wrong usage.
template <typename T, typename Parse>
std::vector<T> parse_list(std::string_view option, std::string_view text, std::string_view wanted,
                          const Parse& parse) {
  std::vector<T> list;
  while (true) {
    const std::size_t end = std::min(text.find(','), text.size());
    const auto value = parse(text.substr(0, end));
    if (!value) {
      throw UsageError(fmt::format("{} must be {}, got '{}'", option, wanted, text.substr(0, end)));
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
  if (value < 1 || value > kMostThreads) return {};
  return value;
}

Plan make_plan(const Options& options) {
  Plan plan;
  plan.shapes = parse_list<measure::Shape>(
      "--shape", options.shapes,
      "decode, cached, prefill, batch or TOKENSxQ+KxDIM (DIM even, at most 2^28 elements)",
      measure::parse_shape);
  plan.dtypes = parse_list<DType>("--dtype", options.dtypes, "of fp32, bf16, fp16, fp64",
                                  measure::parse_dtype);
  if (!options.threads.empty()) {
    plan.threads =
        parse_list<int>("--threads", options.threads, "a number from 1 to 1024", parse_threads);
  } else {
    plan.threads = {1};
    if (measure::all_threads() > 1) plan.threads.push_back(measure::all_threads());
  }
  plan.quick = options.quick;
  return plan;
}

void choose_target(const std::string& target) {
  if (target.empty()) return;
  const std::vector<std::string_view> known = cpu_targets();
  if (std::find(known.begin(), known.end(), target) == known.end()) {
    throw UsageError(fmt::format("--target must be one that this machine has ({}), got '{}'",
                                 join({known.begin(), known.end()}, ", "), target));
  }
  use_cpu_target(target);
}

/// Seconds that add up to three quarters of a minute for the usual shapes and types on two thread
/// counts. Large shapes take most of them: of 4096 tokens there are a few repetitions a second.
measure::Effort effort_for(const measure::Shape& shape, DType dtype, bool quick) {
  if (quick) return {.seconds = 0.0, .fewest = 3};
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

std::vector<measure::Row> measure_all(const Plan& plan) {
  // Progress counts the seconds that each group may take, in thousandths; a quick run has none.
  const auto weight_of = [&plan](const measure::Shape& shape, DType dtype) {
    return 1000.0 * std::max(effort_for(shape, dtype, plan.quick).seconds, 0.1);
  };
  double total = 0.0;
  for (const measure::Shape& shape : plan.shapes) {
    for (const DType dtype : plan.dtypes) {
      total += weight_of(shape, dtype) * static_cast<double>(plan.threads.size());
    }
  }
  Progress progress("measuring", static_cast<std::int64_t>(total));
  double done = 0.0;

  std::vector<measure::Row> rows;
  for (const measure::Shape& shape : plan.shapes) {
    for (const DType dtype : plan.dtypes) {
      const measure::Workbench bench(shape, dtype);
      for (const int threads : plan.threads) {
        const auto update = [&](double part) {
          progress.update(static_cast<std::int64_t>(done + part * weight_of(shape, dtype)));
        };
        const std::vector<measure::Row> some =
            measure::measure_rows(bench, threads, effort_for(shape, dtype, plan.quick), update);
        rows.insert(rows.end(), some.begin(), some.end());
        done += weight_of(shape, dtype);
      }
    }
  }
  return rows;
}

/// For writing, or just to see that it can be written (std::ios::app leaves it as it is).
std::ofstream open_out(const std::string& path, std::ios::openmode mode) {
  std::ofstream file(path, mode);
  if (!file) throw std::runtime_error("cannot write '" + path + "'");
  return file;
}

void bench(const Options& options) {
  const Plan plan = make_plan(options);
  choose_target(options.target);
  // Told before the work, not after it; what is there stays until there is something better.
  if (!options.out.empty()) open_out(options.out, std::ios::app);

  const std::vector<measure::Row> rows = measure_all(plan);
  if (!options.out.empty()) {
    std::ofstream file = open_out(options.out, std::ios::trunc);
    file << bench_json(rows) << std::flush;
    if (!file) throw std::runtime_error("cannot write '" + options.out + "'");
  }
  print_out(options.json ? bench_json(rows) : bench_text(rows, detect_terminal()));
}

}  // namespace

void add_bench(CLI::App& app) {
  auto options = std::make_shared<Options>();
  CLI::App* verb = app.add_subcommand("bench", "Measure rotation against copying the same bytes");
  verb->footer(kFooter);
  verb->add_option("--shape", options->shapes, "Shapes, with commas between")->type_name("SHAPE");
  verb->add_option("--dtype", options->dtypes, "fp32,bf16,fp16 (default), or fp64")
      ->type_name("TYPE");
  verb->add_option("--threads", options->threads, "Numbers of threads; without it, 1 and all")
      ->type_name("N");
  verb->add_option("--target", options->target, "Vector instructions to use; without it, the best")
      ->type_name("NAME");
  verb->add_option("--out", options->out, "Write the JSON to this file as well")->type_name("FILE");
  verb->add_flag("--quick", options->quick, "Few repetitions: a rough answer in seconds");
  verb->add_flag("--json", options->json, "Print JSON for a program");
  verb->callback([options] { bench(*options); });
}

}  // namespace rotary::cli
