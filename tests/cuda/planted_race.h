// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// The planted race, which needs a kernel.
#pragma once

namespace rotary {

/// Launches 64 threads that read each other's shared memory without a barrier.
void race_in_shared_memory(int* out);  // [64], device memory

}  // namespace rotary
