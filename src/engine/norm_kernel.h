// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// The interface between Rope::norm_rotate(), TableRope::norm_rotate() and the CPU engine.
#pragma once

#include <array>
#include <cstdint>
#include <span>

#include "engine/kernel.h"
#include "rotary/norm.h"
#include "rotary/operands.h"
#include "rotary/threads.h"

namespace rotary::internal {

/// A norm as its kernels take it.
struct NormScalars {
  bool has_mean = false;      // LayerNorm: the mean is subtracted
  bool across_heads = false;  // one norm of all heads of a token
  float eps = 0.0f;
  int sum_lanes = 4;
};

/// What a norm is multiplied by, and, with has_mean, what is added to it: [head_dim], or
/// [heads * head_dim] across heads.
struct NormTable {
  const float* factors = nullptr;
  const float* biases = nullptr;
};

/// Parameters of a norm and a rotation. Operands are float32, bfloat16 or float16.
struct NormParams {
  const RotateParams& rotation;
  std::array<NormTable, kMaxOperands> tables{};  // of each operand
  NormScalars norm{};
  NormRounding rounding = NormRounding::kTensor;
  NormOrder order = NormOrder::kBeforeRotation;
};

/// Allocates scratch memory, unless heads are contiguous, keep their pairing and have a norm each
/// before the rotation.
void norm_rotate_on_cpu(const NormParams& params, const Threads& threads);

/// One operand of a gradient. `grad_in` may have no data, and is then not written.
struct NormGradientTensors {
  ConstTensorView in{};  // [batch, tokens, heads, head_dim], as the others
  ConstTensorView grad_out{};
  TensorView grad_in{};
  std::span<double> grad_factors{};  // as NormTable; empty if not wanted
  std::span<double> grad_biases{};
};

/// The gradient of a norm before the rotation. The rotation of `params` is the adjoint, and the
/// operands of its rotation are the gradients of the results, in place of nothing: `out` is unused.
void norm_gradient_on_cpu(const NormParams& params, std::span<const NormGradientTensors> tensors,
                          const Threads& threads);

}  // namespace rotary::internal
