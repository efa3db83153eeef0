// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// The interface between Rope::norm_rotate() and the CPU engine.
#pragma once

#include <array>

#include "engine/kernel.h"
#include "rotary/norm.h"
#include "rotary/operands.h"
#include "rotary/threads.h"

namespace rotary::internal {

/// Parameters of a norm and the rotation that follows. Operands are float32, bfloat16 or float16.
struct NormParams {
  const RotateParams& rotation;
  /// Of each operand, [head_dim], what the norm is multiplied by; null for 1.
  std::array<const float*, kMaxOperands> factors{};
  float eps = 0.0f;
  NormRounding rounding = NormRounding::kTensor;
  int sum_lanes = 4;
};

/// Allocates scratch memory with NormRounding::kFloat32.
void norm_rotate_on_cpu(const NormParams& params, const Threads& threads);

}  // namespace rotary::internal
