// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// Peak memory of training.
#pragma once

#include <c10/core/Device.h>

#include <cstdint>

namespace rotary::roformer {

/// Peak bytes of tensors on a device so far; for the CPU, peak bytes of the whole process.
std::int64_t peak_memory(c10::Device device);
/// Resets the peak on a GPU; not possible on a CPU, where it does nothing.
void reset_peak_memory(c10::Device device);

}  // namespace rotary::roformer
