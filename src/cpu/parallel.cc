// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

#include "cpu/parallel.h"

#include <algorithm>
#include <atomic>
#include <exception>
#include <thread>

#ifdef _OPENMP
#include <omp.h>
#endif

namespace rotary::internal {
namespace {

/// Keeps the first exception of several tasks: none may escape into a thread of the caller or of
/// OpenMP.
class ExceptionCatcher {
 public:
  void call(const std::function<void(int)>& task, int i) noexcept {
    try {
      task(i);
    } catch (...) {
      if (!caught_.exchange(true)) error_ = std::current_exception();
    }
  }
  void rethrow() const {
    if (error_) std::rethrow_exception(error_);
  }

 private:
  std::atomic<bool> caught_ = false;
  std::exception_ptr error_;
};

}  // namespace

int count_of(const Threads& threads) noexcept {
  if (threads.count == 1) return 1;
  if (threads.run) {
    return threads.count > 0 ? threads.count
                             : std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
  }
#ifdef _OPENMP
  if (omp_in_parallel() != 0) return 1;
  return threads.count > 0 ? threads.count : omp_get_max_threads();
#else
  return 1;
#endif
}

void run_tasks(const Threads& threads, int tasks, const std::function<void(int)>& task) {
  if (tasks == 1) return task(0);
  ExceptionCatcher catcher;
  if (threads.run) {
    // A lambda of two references: std::function stores it without allocating.
    threads.run(tasks, [&catcher, &task](int i) { catcher.call(task, i); });
  } else {
#ifdef _OPENMP
#pragma omp parallel for num_threads(tasks) schedule(static, 1)
#endif
    for (int i = 0; i < tasks; ++i) catcher.call(task, i);
  }
  catcher.rethrow();
}

}  // namespace rotary::internal
