// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// The ladder of kernel versions that led to src/cuda: each is checked, then measured on the same
// workloads in the same run as a device-to-device copy.
//   ladder [file for JSON]
//   ladder rope                       only decoding steps and the public API
//   ladder counters                   single launches for a profiler, one per printed line
//
// Times are per call in a graph of calls that cycle through 8 GB of tensors: median of replays,
// gaps between launches included. A fraction is (q and k read once and written once) / time,
// relative to the rate of a copy of workload A's q and k.

#include <cuda_profiler_api.h>

#include <cstdint>
#include <cstdio>
#include <map>
#include <string>
#include <vector>

#include "accuracy.cuh"
#include "harness.cuh"
#include "rope_bench.cuh"
#include "run_kernel.cuh"

namespace {

using harness::check;
using harness::Clock;
using harness::Memory;
using harness::Workload;
using ladder::KernelId;
using ladder::Problem;
using ladder_kernels::Layout;

struct Mode {
  const char* name;
  Layout layout;
  bool in_place;
  float sign;
};
constexpr Mode kModes[] = {
    {"half, out of place", Layout::kHalf, false, 1.0f},
    {"half, in place", Layout::kHalf, true, 1.0f},
    {"interleaved, out of place", Layout::kInterleaved, false, 1.0f},
    {"interleaved, in place", Layout::kInterleaved, true, 1.0f},
    {"half, adjoint, out of place", Layout::kHalf, false, -1.0f},
    {"interleaved, adjoint, out of place", Layout::kInterleaved, false, -1.0f}};
constexpr int kNumKernels = static_cast<int>(KernelId::kLibraryOverlapping) + 1;

/// A decoding step: 32 and 8 heads of 128.
Workload decode_of(std::int64_t tokens) { return {"C", 1, tokens, 32, 8, 128, 2}; }

class Ladder {
 public:
  explicit Ladder(std::FILE* json)
      : json_(json), workloads_(harness::workloads()), memory_(workloads_[0].bytes(), 6) {
    std::vector<std::int64_t> ids(256);
    for (std::size_t i = 0; i < ids.size(); ++i) ids[i] = 1000 + 37 * static_cast<std::int64_t>(i);
    check(cudaMalloc(reinterpret_cast<void**>(&ids_), ids.size() * 8), "cudaMalloc");
    check(cudaMemcpy(ids_, ids.data(), ids.size() * 8, cudaMemcpyHostToDevice), "copy");
  }

  void run() {
    print_accuracy();
    std::vector<double> rates;
    for (const Workload& w : workloads_) {
      memory_.fill_input(w);
      rates.push_back(copy_rate());
      copies_.push_back(clock_.in_graph(calls_for(w, 4.0), 9, [&](int i) { copy(w, i); }));
      for (int mode = 0; mode < 6; ++mode) measure(w, mode);
    }
    rates.push_back(copy_rate());
    rate_ = harness::median(rates);
    std::printf("copy of A's q and k: %.1f GB/s (%.1f to %.1f in this run)\n", rate_ * 1e-3,
                *std::min_element(rates.begin(), rates.end()) * 1e-3,
                *std::max_element(rates.begin(), rates.end()) * 1e-3);
    for (int mode = 0; mode < 6; ++mode) print_mode(mode);
    print_protocols();
    print_decode();
    ladder::RopeBench(memory_, clock_, rate_).print(workloads_);
  }

  void run_rope() {
    memory_.fill_input(workloads_[0]);
    print_decode();
    ladder::RopeBench(memory_, clock_, copy_rate()).print(workloads_);
  }

  /// Between cudaProfilerStart and cudaProfilerStop.
  void run_counters() {
    for (const auto& [workload, mode] : {std::pair{0, 0}, {1, 1}, {3, 0}, {3, 1}, {4, 0}}) {
      const Workload& w = workloads_[static_cast<std::size_t>(workload)];
      memory_.fill_input(w);
      profile(w, kModes[mode], nullptr);
    }
    profile(decode_of(8), kModes[3], ids_);
    profile(decode_of(64), kModes[0], ids_);
  }

  bool failed() const { return failed_; }

 private:
  Problem problem_of(const Workload& w, const Mode& mode, int set,
                     const std::int64_t* ids = nullptr) const {
    const std::int64_t at = set % memory_.sets(w) * w.bytes();
    const char* const in = (mode.in_place ? memory_.out : memory_.in) + at;
    return {w, mode.layout, in, memory_.out + at, 0, ids, mode.sign};
  }

  void profile(const Workload& w, const Mode& mode, const std::int64_t* ids) {
    for (int set = 0; set < 3; ++set) {
      const bool profiles = set == 2;
      if (profiles) check(cudaProfilerStart(), "profiler");
      ladder::run(KernelId::kLibrary, problem_of(w, mode, ids == nullptr ? set : 0, ids),
                  clock_.stream);
      check(cudaStreamSynchronize(clock_.stream), "profile");
      if (profiles) check(cudaProfilerStop(), "profiler");
    }
    const std::string tokens = ids == nullptr ? "" : " " + std::to_string(w.tokens) + " tokens";
    std::printf("%s%s, %s\n", w.name.c_str(), tokens.c_str(), mode.name);
  }

  static int calls_for(const Workload& w, double ms) {
    return std::max(3, static_cast<int>(ms * 1e-3 * 2.1e12 / static_cast<double>(w.bytes())));
  }

  void copy(const Workload& w, int set) const {
    // In parts: single copies of half a gigabyte and more are slower inside a graph.
    constexpr std::int64_t kPartBytes = std::int64_t{256} << 20;
    const std::int64_t at = set % memory_.sets(w) * w.bytes();
    for (std::int64_t i = 0; i < w.bytes(); i += kPartBytes) {
      check(cudaMemcpyAsync(memory_.out + at + i, memory_.in + at + i,
                            static_cast<std::size_t>(std::min(kPartBytes, w.bytes() - i)),
                            cudaMemcpyDeviceToDevice, clock_.stream),
            "copy");
    }
  }

  double copy_rate() {  // bytes per us
    const Workload& a = workloads_[0];
    const double us = clock_.in_graph(calls_for(a, 4.0), 9, [&](int i) { copy(a, i); });
    return 2.0 * static_cast<double>(a.bytes()) / us;
  }

  /// Differing 32-bit words after one run of the kernel on poisoned output.
  std::uint64_t words_wrong(KernelId kernel, const Workload& w, const Mode& mode) {
    const auto bytes = static_cast<std::size_t>(w.bytes());
    if (mode.in_place) {
      check(cudaMemcpy(memory_.out, memory_.in, bytes, cudaMemcpyDeviceToDevice), "copy");
    } else {
      check(cudaMemset(memory_.out, 0xee, bytes), "poison");
    }
    check(cudaDeviceSynchronize(), "synchronize");
    ladder::run(kernel, problem_of(w, mode, 0), clock_.stream);
    check(cudaStreamSynchronize(clock_.stream), ladder::name_of(kernel));
    return memory_.differences(memory_.out, memory_.expected, w.bytes());
  }

  void measure(const Workload& w, int mode_index) {
    const Mode& mode = kModes[mode_index];
    Problem problem{w, mode.layout, memory_.in, memory_.expected, 0, nullptr, mode.sign};
    ladder::run(KernelId::kNaive, problem, clock_.stream);
    check(cudaStreamSynchronize(clock_.stream), "naive");
    report_error(w, problem, "naive");
    for (int r = 0; r < kNumKernels; ++r) {
      const auto kernel = static_cast<KernelId>(r);
      if (mode_index > 2 && kernel < KernelId::kLibrary) continue;
      if (kernel == KernelId::kShuffle && mode.layout != Layout::kHalf) continue;
      if (const std::uint64_t wrong = words_wrong(kernel, w, mode); wrong != 0) {
        std::printf("WRONG: %s, %s, %s: %llu words\n", w.name.c_str(), mode.name,
                    ladder::name_of(kernel), static_cast<unsigned long long>(wrong));
        failed_ = true;
      }
      times_[{w.name, mode_index, r}] = clock_.in_graph(calls_for(w, 4.0), 9, [&](int i) {
        ladder::run(kernel, problem_of(w, mode, i), clock_.stream);
      });
    }
  }

  accuracy::Error report_error(const Workload& w, const Problem& problem, const char* what) {
    const accuracy::Error error = accuracy::error_of(w, problem.in, problem.out, problem.layout,
                                                     problem.start, problem.sign, 24);
    if (error.max_excess > 4e-6) {
      std::printf("WRONG: %s, %s: off by %.3g beyond rounding\n", w.name.c_str(), what,
                  error.max_excess);
      failed_ = true;
    }
    return error;
  }

  void print_accuracy() {
    const int floats = accuracy::count_bit_differences<float>(1 << 22);
    const int doubles = accuracy::count_bit_differences<double>(1 << 20);
    std::printf("cos and sin of %d and %d random phases: %d and %d differ from engine/phase.h\n",
                1 << 22, 1 << 20, floats, doubles);
    failed_ = failed_ || floats != 0 || doubles != 0;
    const Workload& a = workloads_[0];
    memory_.fill_input(a);
    for (const std::int64_t start : {std::int64_t{0}, std::int64_t{1'000'000'000}}) {
      Problem problem{a, Layout::kHalf, memory_.in, memory_.out, start, nullptr, 1.0f};
      ladder::run(KernelId::kLibrary, problem, clock_.stream);
      check(cudaStreamSynchronize(clock_.stream), "accuracy");
      const accuracy::Error error = report_error(a, problem, "src/cuda");
      std::printf(
          "A from position %lld: relative error %.4e, of rounding the exact result once %.4e "
          "(%.4f)\n",
          static_cast<long long>(start), error.result, error.rounding,
          error.result / error.rounding);
      std::fprintf(json_, "{\"accuracy_from\": %lld, \"error\": %.6e, \"rounding\": %.6e}\n",
                   static_cast<long long>(start), error.result, error.rounding);
    }
  }

  void print_mode(int mode_index) {
    std::printf("\n%-40s", kModes[mode_index].name);
    for (const Workload& w : workloads_) std::printf("        %s        ", w.name.c_str());
    std::printf("\n");
    if (mode_index == 0) print_copies();
    for (int r = 0; r < kNumKernels; ++r) {
      if (!times_.contains({workloads_[0].name, mode_index, r})) continue;
      std::printf("%-40s", ladder::name_of(static_cast<KernelId>(r)));
      for (const Workload& w : workloads_) {
        const double us = times_[{w.name, mode_index, r}];
        const double fraction = 2.0 * static_cast<double>(w.bytes()) / us / rate_;
        std::printf(" %8.2f (%.3f)", us, fraction);
        std::fprintf(json_,
                     "{\"workload\": \"%s\", \"mode\": \"%s\", \"kernel\": \"%s\", \"us\": %.3f, "
                     "\"fraction\": %.4f}\n",
                     w.name.c_str(), kModes[mode_index].name,
                     ladder::name_of(static_cast<KernelId>(r)), us, fraction);
      }
      std::printf("\n");
    }
  }

  void print_copies() {
    std::printf("%-40s", "a copy of the same bytes");
    for (std::size_t i = 0; i < workloads_.size(); ++i) {
      const double fraction = 2.0 * static_cast<double>(workloads_[i].bytes()) / copies_[i] / rate_;
      std::printf(" %8.2f (%.3f)", copies_[i], fraction);
      std::fprintf(json_, "{\"workload\": \"%s\", \"copy_us\": %.3f, \"fraction\": %.4f}\n",
                   workloads_[i].name.c_str(), copies_[i], fraction);
    }
    std::printf("\n");
  }

  /// The same work timed otherwise: one set repeatedly, and single launches between events.
  void print_protocols() {
    for (const Mode& mode : {kModes[0], kModes[1], kModes[2]}) print_protocols(mode);
  }

  void print_protocols(const Mode& mode) {
    std::printf("\nus, %-30s%12s%12s%12s%20s\n", mode.name, "graph", "one set", "queued",
                "queued, over copy's");
    for (const Workload& w : workloads_) {
      memory_.fill_input(w);
      double copied = 0.0;
      const auto line = [&](const char* name, const std::function<void(int)>& call) {
        const int calls = calls_for(w, 4.0);
        const double queued = clock_.queued(60, call);
        if (copied == 0.0) copied = queued;
        std::printf("%s %-32s%12.2f%12.2f%12.2f%20.3f\n", w.name.c_str(), name,
                    clock_.in_graph(calls, 9, call),
                    clock_.in_graph(calls, 9, [&](int) { call(0); }), queued, copied / queued);
      };
      line("copy", [&](int i) { copy(w, i); });
      line("src/cuda",
           [&](int i) { ladder::run(KernelId::kLibrary, problem_of(w, mode, i), clock_.stream); });
    }
  }

  void print_decode() {
    memory_.fill_input(workloads_[0]);
    std::printf("\nDecode, 32 and 8 heads of 128, int64 ids, us a call in a graph of 64\n");
    for (const bool overlaps : {false, true}) {
      print_decode("", overlaps ? "an empty kernel, launches overlap" : "an empty kernel",
                   [&](const Workload& w) { ladder::run_empty(w, overlaps, clock_.stream); });
    }
    for (const Mode& mode : kModes) {
      if (mode.sign < 0.0f) continue;
      for (const KernelId kernel :
           {KernelId::kLoadsFirst, KernelId::kLibrary, KernelId::kLibraryOverlapping}) {
        print_decode(mode.name, ladder::name_of(kernel), [&](const Workload& w) {
          ladder::run(kernel, problem_of(w, mode, 0, ids_), clock_.stream);
        });
      }
    }
  }

  void print_decode(const char* mode, const char* kernel,
                    const std::function<void(const Workload&)>& call) {
    std::printf("%-28s%-36s", mode, kernel);
    for (const std::int64_t tokens : {1, 8, 64, 256}) {
      const double us = clock_.in_graph(64, 61, [&](int) { call(decode_of(tokens)); });
      std::printf("%8.3f", us);
      std::fprintf(json_,
                   "{\"decode\": %lld, \"mode\": \"%s\", \"kernel\": \"%s\", \"us\": %.3f}\n",
                   static_cast<long long>(tokens), mode, kernel, us);
    }
    std::printf("\n");
  }

  struct Key {
    std::string workload;
    int mode;
    int kernel;
    auto operator<=>(const Key&) const = default;
  };
  std::FILE* json_;
  std::vector<Workload> workloads_;
  Memory memory_;
  mutable Clock clock_;
  std::map<Key, double> times_;
  std::vector<double> copies_;  // us, of each workload
  std::int64_t* ids_ = nullptr;
  double rate_ = 0.0;
  bool failed_ = false;
};

}  // namespace

int main(int argc, char** argv) {
  if (argc == 2 && std::string(argv[1]) == "rope") {
    Ladder(std::fopen("/dev/null", "w")).run_rope();
    return 0;
  }
  if (argc == 2 && std::string(argv[1]) == "counters") {
    Ladder(nullptr).run_counters();
    return 0;
  }
  std::FILE* json = argc > 1 ? std::fopen(argv[1], "w") : std::fopen("/dev/null", "w");
  if (json == nullptr) return 2;
  cudaDeviceProp device{};
  check(cudaGetDeviceProperties(&device, 0), "cudaGetDeviceProperties");
  std::printf("%s, %d multiprocessors\n", device.name, device.multiProcessorCount);
  Ladder ladder(json);
  ladder.run();
  std::fclose(json);
  return ladder.failed() ? 1 : 0;
}
