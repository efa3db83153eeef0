// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

/// The memory of large results on the CPU, which later results use again.
///
///   rotary::torch::set_memory_limit(std::size_t{4} << 30);  // a training loop of many layers
///   rotary::torch::release_memory();
///
/// Memory that is new to a process is made page by page as it is first written, which takes longer
/// than the rotation. So results of 1 MiB and more take the memory that earlier ones have left,
/// where sizes fit. Tensors are like any others: each owns its memory until it is freed.
/// All functions can be called from any thread. CUDA has PyTorch's own pool.
#pragma once

#include <cstddef>

namespace rotary::torch {

/// In bytes.
struct MemoryUse {
  std::size_t in_use = 0;  // by results that are alive
  std::size_t idle = 0;    // kept for results to come
  std::size_t limit = 0;   // of what is kept idle
};
MemoryUse memory_use();

/// Gives what is idle back to the system.
void release_memory();

/// At first 1 GiB, or the MiB that $ROTARY_TORCH_MEMORY_LIMIT says. What was idle for longest is
/// given back first; 0 keeps nothing.
void set_memory_limit(std::size_t bytes);

}  // namespace rotary::torch
