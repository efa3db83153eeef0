// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// Kernels for Arm CPUs since 2020, with FEAT_BF16, FEAT_FHM and FEAT_FCMA: the same bits as those
// of NEON, in fewer instructions. Armv8.6 is the first version of the architecture with all three.
#pragma once

#include <cstdint>

#include "cpu/token_heads.h"
#include "rotary/pairing.h"
#include "rotary/tensor.h"
#include "rotary/write_order.h"

namespace rotary::internal {

/// Whether the CPU can run them. False if the compiler could not build them.
bool has_armv86() noexcept;

/// A kernel and the layout in which it reads cos and sin.
struct Armv86Kernel {
  RotateTokens<float> rotate;
  RowLayout row_layout;
};

/// The kernel for heads of `pairs` contiguous pairs with equal input and output pairing. Null if
/// these instructions gain nothing over NEON. Only where ROTARY_CPU_ARMV86 is 1.
Armv86Kernel choose_armv86_kernel(DType dtype, Pairing pairing, std::int64_t pairs,
                                  HeadOrder order) noexcept;

}  // namespace rotary::internal
