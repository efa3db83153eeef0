// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// Which sets of vector instructions the engine is compiled for. Included before <hwy/...>.
#pragma once

// Left out: those without a fused multiply-add of their own (SSSE3, SSE4: machines before 2013,
// which run the scalar target); AVX3_DL, which is AVX3 with integer instructions that nothing here
// uses; and SVE: vectors of a size that the compiler does not know cannot be held in arrays, which
// is how rows stay in registers, and its machines do as much a cycle with NEON.
#ifndef HWY_DISABLED_TARGETS
#define HWY_DISABLED_TARGETS \
  (HWY_SSSE3 | HWY_SSE4 | HWY_AVX3_DL | HWY_SVE | HWY_SVE2 | HWY_SVE_256 | HWY_SVE2_128)
#endif

// The scalar target too, wherever it is not the best: tests hold all others to it.
#ifndef HWY_COMPILE_ALL_ATTAINABLE
#define HWY_COMPILE_ALL_ATTAINABLE
#endif

namespace rotary::internal {

/// Whether this machine has the instructions of Armv8.6 for bfloat16, complex numbers and float
/// products of float16: servers since 2020 do.
bool has_armv86() noexcept;

}  // namespace rotary::internal
