// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

/// The threads of a CPU call.
///
///   rotary::Rope rope(frequencies, layout, {.threads = {.count = 4}});
///   rotary::Rope on_my_pool = rope.with_threads(
///       {.count = 4, .run = [&](int tasks, const std::function<void(int)>& task) {
///          for (int i = 0; i < tasks; ++i) pool.submit([&task, i] { task(i); });
///          pool.wait();
///        }});
///
/// Results are the same, bit for bit, for every count and every pool. Small calls (a decoding step)
/// run on the calling thread. Without a pool, so do calls from inside an OpenMP parallel region.
#pragma once

#include <functional>

namespace rotary {

/// Calls task(0) ... task(tasks - 1), each once, in any order, on any threads, and returns when all
/// have returned. `task` never throws.
using ParallelFor = std::function<void(int tasks, const std::function<void(int)>& task)>;

struct Threads {
  /// Maximum number of concurrent tasks. 0: as many as OpenMP would use, or with `run` as there are
  /// hardware threads. 1: the calling thread alone.
  int count = 0;
  /// The caller's thread pool. Empty: OpenMP threads; the calling thread in a build without OpenMP.
  ParallelFor run{};
};

}  // namespace rotary
