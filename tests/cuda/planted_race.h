// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// The mistake that takes a kernel of its own.
#pragma once

namespace rotary {

/// A block of 64 threads that read from shared memory what others write, and do not wait for it.
void race_in_shared_memory(int* out);  // [64], device memory

}  // namespace rotary
