// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// The machine that figures belong to.
#pragma once

#include <string>
#include <string_view>

namespace rotary::measure {

/// "Intel(R) Xeon(R) Processor, 2 cores, AVX3": the processor, what the system offers of it, and
/// the instructions in use.
std::string machine_name();

/// The same for a file's name: "intel-xeon-processor-2-cores-avx3".
std::string slug_of(std::string_view name);

}  // namespace rotary::measure
