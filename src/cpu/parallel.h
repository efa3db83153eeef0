// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// Runs tasks on the caller's thread pool, on OpenMP threads or on the calling thread.
#pragma once

#include <functional>

#include "rotary/threads.h"

namespace rotary::internal {

/// Number of tasks to run concurrently. Without a pool it is 1 inside an OpenMP parallel region.
int count_of(const Threads& threads) noexcept;

/// Calls task(0) ... task(tasks - 1). Rethrows the first exception that a task throws.
void run_tasks(const Threads& threads, int tasks, const std::function<void(int)>& task);

}  // namespace rotary::internal
