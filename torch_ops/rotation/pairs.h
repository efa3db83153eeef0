// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// Pairs of a head in terms of PyTorch's own operators, for gradients that must be differentiable.
#pragma once

#include <ATen/core/Tensor.h>

#include <utility>

#include "rotation/rope_cache.h"
#include "rotation/turn.h"

namespace rotary::torch {

/// The two elements of every pair, [.., pairs] each, of a tensor [.., head_dim].
std::pair<at::Tensor, at::Tensor> split_pairs(const at::Tensor& x, Pairing pairing,
                                              const SharedRope& rope);

/// The pairing that a turn reads and the one it writes.
Pairing read_pairing(Turn turn, const HeadLayout& layout);
Pairing written_pairing(Turn turn, const HeadLayout& layout);

/// float64 for float64, float32 for the rest: what rotations are computed in.
at::Tensor widened(const at::Tensor& x);

/// The sum over heads: [.., tokens, pairs] of [.., tokens, heads, pairs], or of
/// [.., heads, tokens, pairs].
at::Tensor sum_over_heads(const at::Tensor& x, std::int64_t token_dim);

/// Sums over heads of Im(conj(x) g) and Re(conj(x) g), [batch, tokens, pairs], float64: gradients
/// of the phase and of the logarithm of the length, for x that was turned and g its gradient.
struct PhaseGradient {
  at::Tensor angle{};
  at::Tensor length{};
};
PhaseGradient phase_gradient(at::TensorList tensors, at::TensorList grads, Pairing pairing,
                             const SharedRope& rope, std::int64_t token_dim);

/// Gradient of the positions of turn(tensors), in their shape: dL/dx_a = sum_p f[p][a] dL/dphase_p,
/// and likewise for growth. `grads` are those of `tensors`. By the engine, or where it must be
/// differentiable again (create_graph) by PyTorch's operators.
at::Tensor position_gradient(Turn turn, at::TensorList tensors, at::TensorList grads,
                             const SharedRope& rope, const at::Tensor& positions,
                             std::int64_t token_dim);

/// Gradients of cos and sin of the table that turned `in`.
std::pair<at::Tensor, at::Tensor> table_gradient(Turn turn, at::TensorList ins,
                                                 at::TensorList grads, const SharedRope& rope,
                                                 const at::Tensor& cos, std::int64_t token_dim);

}  // namespace rotary::torch
