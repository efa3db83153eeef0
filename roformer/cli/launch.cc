// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// The command roformer: decides how threads wait, and then becomes the program itself. OpenMP reads
// its environment while it is loaded, before main() of a program that links it; hence two programs.
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <system_error>

namespace {

/// How often OpenMP's threads look for the next parallel region before they sleep: for 0.1 ms on a
/// Neoverse-N1, 5 us on a Xeon. There 50 us would be 7 % faster alone, and a quarter slower beside
/// a busy process (docs/roformer.md).
#if defined(__x86_64__)
constexpr const char* kSpinCount = "1000";
#else
constexpr const char* kSpinCount = "10000";
#endif

/// Bounds the time that OpenMP's threads spin for the next parallel region. libgomp's default of
/// 3 ms is a whole time slice: beside another process, a thread has spent its share of the core
/// before its work arrives. Does nothing if the user has chosen.
void bound_spinning() {
  constexpr std::array kVariables = {"OMP_WAIT_POLICY", "GOMP_SPINCOUNT", "KMP_BLOCKTIME"};
  const auto is_set = [](const char* name) { return std::getenv(name) != nullptr; };
  if (std::any_of(kVariables.begin(), kVariables.end(), is_set)) return;
  setenv("GOMP_SPINCOUNT", kSpinCount, 0);  // libgomp
  setenv("KMP_BLOCKTIME", "1", 0);          // LLVM's and Intel's run time: milliseconds
}

/// struct sched_attr of Linux; its header and glibc's cannot be included together.
struct SchedAttributes {
  uint32_t size;
  uint32_t policy;
  uint64_t flags;
  int32_t nice;
  uint32_t priority;
  uint64_t runtime;
  uint64_t deadline;
  uint64_t period;
};

/// Asks the scheduler for short time slices: a thread that wakes for the next parallel region then
/// need not wait until a busy process has used up its slice of 3 ms, while the other threads of the
/// region wait for it. Threads inherit it. Linux 6.12 and newer; others ignore it.
void shorten_time_slices() {
  SchedAttributes attributes = {};
  if (syscall(SYS_sched_getattr, 0, &attributes, sizeof attributes, 0) != 0) return;
  if (attributes.policy != 0) return;  // not SCHED_OTHER: the user has chosen
  attributes.runtime = 500'000;        // nanoseconds
  syscall(SYS_sched_setattr, 0, &attributes, 0);
}

}  // namespace

int main(int, char** argv) {
  bound_spinning();
  shorten_time_slices();
  std::error_code error;
  const auto self = std::filesystem::read_symlink("/proc/self/exe", error);
  const auto program = (self.parent_path() / ROFORMER_PROGRAM).lexically_normal();
  execv(program.c_str(), argv);
  std::fprintf(stderr, "roformer: cannot start %s: %s\n", program.c_str(), std::strerror(errno));
  return 1;
}
