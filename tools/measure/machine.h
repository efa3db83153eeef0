// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// The name of the machine that figures belong to.
#pragma once

#include <string>

namespace rotary::measure {

/// "Intel(R) Xeon(R) Processor, 2 cores, AVX3": processor, available cores, SIMD target in use.
std::string machine_name();

}  // namespace rotary::measure
