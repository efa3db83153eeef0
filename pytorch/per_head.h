// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// Rotation by frequencies of each head, as RoPE-Mixed learns them (Heo et al. 2024).
//
// Frequencies are [frequency heads, pairs, axes]. A tensor has as many heads or a multiple of them:
// then heads in a row share frequencies, as queries of grouped attention share a key head.
#pragma once

#include <ATen/core/Tensor.h>

#include <optional>
#include <string_view>
#include <tuple>
#include <vector>

#include "pytorch/rope_cache.h"
#include "pytorch/rotation_op.h"

namespace rotary::torch {

/// A call of the operators. Not for shifts.
struct PerHeadArgs {
  /// [axes or 1, batch or 1, tokens], float64.
  at::Tensor positions{};
  /// float64.
  at::Tensor frequencies{};
  /// One element, float64; else the rope's own scale.
  std::optional<at::Tensor> scale{};
  std::string_view rope{};
  std::int64_t token_dim = -3;
  RotationOp op = RotationOp::kRotate;
};

/// Axes and pairs that the kernels support.
inline constexpr std::int64_t kMaxPerHeadAxes = 4;
inline constexpr std::int64_t kMaxPerHeadPairs = 512;

/// +1 where the angle grows with the position: the phase of the factor is its sign times f x.
constexpr double phase_sign(RotationOp op) noexcept {
  return op == RotationOp::kRotate || op == RotationOp::kUnrotateAdjoint ? 1.0 : -1.0;
}
/// Whether the length of the factor is 1 / scale.
constexpr bool divides_by_scale(RotationOp op) noexcept {
  return op == RotationOp::kUnrotate || op == RotationOp::kUnrotateAdjoint;
}

/// Rotates tensors by frequencies [heads, pairs, axes] of any type: the kernels where they apply,
/// else PyTorch's operators. Derivatives of any order. `op` is not a shift.
std::vector<at::Tensor> rotate_heads(RotationOp op, at::TensorList tensors, std::string_view rope,
                                     const at::Tensor& frequencies,
                                     const std::optional<at::Tensor>& scale,
                                     const TokenPositionsRef& token_positions);

/// Frequencies [pairs, axes] for each head, [heads, pairs, axes]: turned by a random rotation of
/// the axes. With one axis, as they are.
at::Tensor in_random_directions(const at::Tensor& frequencies, std::int64_t heads);

/// By PyTorch's operators: differentiable in everything, growth (xPos) included.
std::vector<at::Tensor> plain_rotate_per_head(at::TensorList tensors, const PerHeadArgs& args);

/// Gradients of frequencies [heads, pairs, axes] and of log(scale) [1], float64, by PyTorch's
/// operators. `input_grads` are the gradients of `tensors`.
std::tuple<at::Tensor, at::Tensor> plain_per_head_gradient(at::TensorList tensors,
                                                           at::TensorList input_grads,
                                                           const PerHeadArgs& args);

/// torch.ops.rotary.rotate_per_head: for ropes without growth, of up to four axes and 512 pairs.
std::vector<at::Tensor> call_rotate_per_head(at::TensorList tensors, const PerHeadArgs& args);

/// torch.ops.rotary.per_head_gradient: gradients of the tensors, then of frequencies and
/// log(scale).
struct PerHeadGradients {
  std::vector<at::Tensor> inputs{};
  at::Tensor frequencies{};
  at::Tensor log_scale{};
};
PerHeadGradients call_per_head_gradient(at::TensorList tensors, at::TensorList grads,
                                        const PerHeadArgs& args);

// ---- The kernels' own work, for operands that the operators have checked ------------------------

std::vector<at::Tensor> rotate_per_head_on_cpu(at::TensorList tensors, const PerHeadArgs& args);
PerHeadGradients per_head_gradient_on_cpu(at::TensorList tensors, at::TensorList grads,
                                          const PerHeadArgs& args);
/// Whether the CUDA kernels were compiled.
bool has_per_head_kernels() noexcept;
std::vector<at::Tensor> rotate_per_head_on_cuda(at::TensorList tensors, const PerHeadArgs& args);
PerHeadGradients per_head_gradient_on_cuda(at::TensorList tensors, at::TensorList grads,
                                           const PerHeadArgs& args);

}  // namespace rotary::torch
