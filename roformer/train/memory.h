// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// How much memory training takes.
#pragma once

#include <c10/core/Device.h>

#include <cstdint>

namespace rotary::roformer {

/// The most bytes that tensors of a device had so far; for the CPU, the most of the whole process.
std::int64_t peak_memory(c10::Device device);

}  // namespace rotary::roformer
