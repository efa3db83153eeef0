// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

/// Which instructions the CPU engine uses.
///
///   std::cout << rotary::cpu_target();   // AVX3: the 512-bit one of x86-64
///
/// The library holds one engine for each set of vector instructions and chooses the best that the
/// machine has, at the first call. All give the same bits.
#pragma once

#include <string_view>
#include <vector>

namespace rotary {

/// "AVX3", "AVX2", "NEON", ..., "SCALAR".
std::string_view cpu_target() noexcept;

/// Those of this build that this machine can run, best first.
std::vector<std::string_view> cpu_targets();

/// Makes all further calls use one of cpu_targets(), or the best again for an empty name. For tests
/// and measurements; not to be called while other threads rotate. Throws std::invalid_argument for
/// another name.
void use_cpu_target(std::string_view name);

}  // namespace rotary
