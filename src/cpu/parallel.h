// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// Tasks on the caller's pool, on OpenMP's threads, or here.
#pragma once

#include <functional>

#include "rotary/threads.h"

namespace rotary::internal {

/// How many tasks at once the caller wants; 1 inside an OpenMP parallel region,
/// unless there is a pool.
int count_of(const Threads& threads) noexcept;

/// task(0) ... task(tasks - 1). What a task throws is thrown here, the first of several.
void run_tasks(const Threads& threads, int tasks, const std::function<void(int)>& task);

}  // namespace rotary::internal
