// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

/// The SIMD instruction set (Highway target) that the CPU engine uses.
///
///   std::cout << rotary::cpu_target();   // AVX3: the 512-bit one of x86-64
///
/// The library is compiled for several instruction sets and chooses the best that the CPU supports
/// at the first call. All give the same bits.
#pragma once

#include <string_view>
#include <vector>

namespace rotary {

/// The target in use: "AVX3", "AVX2", "NEON", ..., "SCALAR".
std::string_view cpu_target() noexcept;

/// The targets of this build that the CPU supports, best first.
std::vector<std::string_view> cpu_targets();

/// Makes all further calls use one of cpu_targets(), or the best again for an empty name. For tests
/// and benchmarks; must not be called while other threads rotate. Throws std::invalid_argument for
/// any other name.
void use_cpu_target(std::string_view name);

}  // namespace rotary
