// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// Pairs of a head by PyTorch's own operators, for gradients that must be differentiable.
#pragma once

#include <ATen/core/Tensor.h>

#include <utility>

#include "pytorch/rope_cache.h"
#include "pytorch/rotation_op.h"

namespace rotary::torch {

/// The two elements of every pair, [.., pairs] each, of a tensor [.., head_dim].
std::pair<at::Tensor, at::Tensor> split_pairs(const at::Tensor& x, Pairing pairing,
                                              const SharedRope& rope);

/// The pairings of an operation's input and output.
Pairing input_pairing(RotationOp op, const HeadLayout& layout);
Pairing output_pairing(RotationOp op, const HeadLayout& layout);

/// The type that rotations are computed in: float64 for float64, float32 for the rest.
at::Tensor widened(const at::Tensor& x);

/// The sum over heads: [.., tokens, pairs] of [.., tokens, heads, pairs], or of
/// [.., heads, tokens, pairs].
at::Tensor sum_over_heads(const at::Tensor& x, std::int64_t token_dim);

/// Sums over heads of Im(conj(x) g) and Re(conj(x) g), [batch, tokens, pairs], float64, for an
/// input x and its gradient g: gradients of the phase and of the logarithm of the length.
struct PhaseGradient {
  at::Tensor angle{};
  at::Tensor length{};
};
PhaseGradient phase_gradient(at::TensorList tensors, at::TensorList grads, Pairing pairing,
                             const SharedRope& rope, std::int64_t token_dim);

/// Gradient of the positions of op(tensors), in their shape: dL/dx_a = sum_p f[p][a] dL/dphase_p,
/// and likewise for growth. `grads` are the gradients of `tensors`. By the library's kernels, or
/// with create_graph by PyTorch's operators, which are differentiable again.
at::Tensor position_gradient(RotationOp op, at::TensorList tensors, at::TensorList grads,
                             const SharedRope& rope, const at::Tensor& positions,
                             std::int64_t token_dim);

/// Gradients of cos and sin of the table that rotated `ins`.
std::pair<at::Tensor, at::Tensor> table_gradient(RotationOp op, at::TensorList ins,
                                                 at::TensorList grads, const SharedRope& rope,
                                                 const at::Tensor& cos, std::int64_t token_dim);

}  // namespace rotary::torch
