// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// Thread pools of callers, for Threads::run.
#pragma once

#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "rotary/threads.h"

namespace rotary {

/// A thread for each task.
inline void run_on_threads(int tasks, const std::function<void(int)>& task) {
  std::vector<std::thread> threads;
  for (int i = 0; i < tasks; ++i) threads.emplace_back([&task, i] { task(i); });
  for (std::thread& thread : threads) thread.join();
}

/// All tasks on the calling thread.
inline void run_here(int tasks, const std::function<void(int)>& task) {
  for (int i = 0; i < tasks; ++i) task(i);
}
inline void run_backwards(int tasks, const std::function<void(int)>& task) {
  for (int i = tasks; i-- > 0;) task(i);
}

struct NamedThreads {
  std::string name;
  Threads threads;
};

/// Thread settings that must not change any result.
inline std::vector<NamedThreads> all_threads() {
  std::vector<NamedThreads> list;
  for (const int count : {0, 1, 2, 3, 4, 5, 8}) {
    const std::string name = std::to_string(count);
    list.push_back({name + " of OpenMP", {.count = count, .run = {}}});
    list.push_back({name + " threads", {.count = count, .run = run_on_threads}});
  }
  for (const int count : {3, 8}) {
    const std::string name = std::to_string(count);
    list.push_back({name + " here", {.count = count, .run = run_here}});
    list.push_back({name + " backwards", {.count = count, .run = run_backwards}});
  }
  return list;
}

/// A few of them, for slow tests.
inline std::vector<NamedThreads> some_threads() {
  return {{"2 of OpenMP", {.count = 2, .run = {}}},
          {"3 threads", {.count = 3, .run = run_on_threads}},
          {"5 backwards", {.count = 5, .run = run_backwards}}};
}

}  // namespace rotary
