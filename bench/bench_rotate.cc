// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// The matrix of `rotary bench` under Google Benchmark, for its filters, repetitions and JSON:
//   rotate/4096x40x128/fp32/half/in_place/ready/threads:1
//   copy/4096x40x128/fp32/out_of_place/threads:1   memcpy of q and k to another buffer
//   scale/4096x40x128/fp32/in_place/threads:1      the same bytes times a number
// bench_rotate --slug prints the machine as a file's name.
#include <benchmark/benchmark.h>

#include <cstdint>
#include <cstdio>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "bench/measure/machine.h"
#include "bench/measure/parts.h"
#include "bench/measure/shape.h"
#include "bench/measure/workbench.h"
#include "rotary/version.h"

namespace {

namespace measure = rotary::measure;
using measure::Placement;
using measure::Workbench;

/// Made when first needed and kept: repetitions of different rows take turns.
const Workbench& workbench(const measure::Shape& shape, rotary::DType dtype) {
  static std::map<std::pair<std::string, rotary::DType>, Workbench> benches;
  return benches.try_emplace({measure::name_of(shape), dtype}, shape, dtype).first->second;
}

/// `call` once an iteration; bytes are counted twice: read once, written once.
template <typename Call>
void run(benchmark::State& state, const Workbench& bench, const Call& call) {
  call();
  for (auto _ : state) {
    call();
    benchmark::ClobberMemory();
  }
  state.SetBytesProcessed(state.iterations() * 2 * bench.bytes());
}

template <typename Function>
void add(const std::string& name, int threads, const Function& function) {
  benchmark::RegisterBenchmark((name + "/threads:" + std::to_string(threads)).c_str(), function)
      ->UseRealTime();
}

void add_references(const measure::Shape& shape, rotary::DType dtype, int threads,
                    const std::string& name) {
  for (const Placement placement : measure::kPlacements) {
    const std::string row = name + "/" + std::string(name_of(placement));
    add("scale/" + row, threads, [=](benchmark::State& state) {
      const Workbench& bench = workbench(shape, dtype);
      run(state, bench, [&] { bench.scale(placement, threads); });
    });
    if (placement == Placement::kInPlace) continue;
    add("copy/" + row, threads, [=](benchmark::State& state) {
      const Workbench& bench = workbench(shape, dtype);
      run(state, bench, [&] { bench.copy(placement, threads); });
    });
  }
}

void add_rotations(const measure::Shape& shape, rotary::DType dtype, int threads,
                   const std::string& name) {
  for (const measure::Variant& variant : measure::variants_of(dtype)) {
    std::string row = "rotate/" + name;
    for (const std::string_view part :
         {name_of(variant.pairing), name_of(variant.placement), name_of(variant.tables)}) {
      row.append("/").append(part);
    }
    add(row, threads, [=](benchmark::State& state) {
      const Workbench& bench = workbench(shape, dtype);
      run(state, bench, measure::Rotation(bench, variant, threads));
    });
  }
}

void add_all() {
  std::vector<int> thread_counts = {1};
  if (measure::all_threads() > 1) thread_counts.push_back(measure::all_threads());
  for (const measure::NamedShape& standard : measure::standard_shapes()) {
    for (const rotary::DType dtype :
         {rotary::DType::kFloat32, rotary::DType::kBFloat16, rotary::DType::kFloat16}) {
      const std::string name =
          measure::short_name_of(standard.shape) + "/" + std::string(measure::short_name_of(dtype));
      for (const int threads : thread_counts) {
        add_references(standard.shape, dtype, threads, name);
        add_rotations(standard.shape, dtype, threads, name);
      }
    }
  }
}

}  // namespace

int main(int argc, char** argv) {
  const std::string machine = measure::machine_name();
  if (argc == 2 && std::string_view(argv[1]) == "--slug") {
    std::printf("%s\n", measure::slug_of(machine).c_str());
    return 0;
  }
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 1;
  benchmark::AddCustomContext("machine", machine);
  benchmark::AddCustomContext("rotary", ROTARY_VERSION_STRING);
  add_all();
  benchmark::RunSpecifiedBenchmarks();
  benchmark::Shutdown();
}
