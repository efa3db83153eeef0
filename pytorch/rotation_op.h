// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// Calls of the operators from C++.
#pragma once

#include <ATen/core/Tensor.h>

#include <optional>
#include <string_view>
#include <tuple>
#include <vector>

#include "pytorch/shared/rotation_op.h"
#include "pytorch/token_positions_ref.h"

namespace rotary::torch {

/// torch.ops.rotary.<op> and its in-place form, through the dispatcher.
std::vector<at::Tensor> call(RotationOp op, at::TensorList tensors, std::string_view rope,
                             const TokenPositionsRef& token_positions);
void call_in_place(RotationOp op, at::TensorList tensors, std::string_view rope,
                   const TokenPositionsRef& token_positions);

/// torch.ops.rotary.rotate_table or adjoint_table.
std::vector<at::Tensor> call_table(RotationOp op, at::TensorList tensors, const at::Tensor& cos,
                                   const at::Tensor& sin, std::string_view rope,
                                   std::int64_t token_dim);

/// torch.ops.rotary.rotate_table_ or adjoint_table_: see cached_table.cc.
void call_cached_table(RotationOp op, at::TensorList tensors, const at::Tensor& cos,
                       const at::Tensor& sin, std::string_view rope,
                       const std::optional<at::Tensor>& positions, std::int64_t token_dim);

/// torch.ops.rotary.rotate_learned; `op` is "rotate", "adjoint" or "unrotate".
std::vector<at::Tensor> call_learned(std::string_view op, at::TensorList tensors,
                                     std::string_view rope, const at::Tensor& frequencies,
                                     const std::optional<at::Tensor>& scale,
                                     const TokenPositionsRef& token_positions);

/// torch.ops.rotary.rotate_learned_table: rotate_table by a cos/sin table of `frequencies` and
/// `scale`, with gradients of those.
struct LearnedTensors {
  at::Tensor frequencies{};
  std::optional<at::Tensor> scale{};
};
std::vector<at::Tensor> call_learned_table(at::TensorList tensors, const at::Tensor& cos,
                                           const at::Tensor& sin, const LearnedTensors& learned,
                                           std::string_view rope,
                                           const TokenPositionsRef& token_positions);

/// torch.ops.rotary.position_gradient and frequency_gradient: see gradient.cc.
at::Tensor call_position_gradient(at::TensorList tensors, at::TensorList grads,
                                  std::string_view rope, std::string_view pairing,
                                  std::int64_t token_dim);
std::tuple<at::Tensor, at::Tensor> call_frequency_gradient(
    at::TensorList tensors, at::TensorList grads, std::string_view rope,
    const TokenPositionsRef& token_positions);

/// torch.ops.rotary.frequencies_like and growth_like: [pairs, axes], float64, on the device of
/// `like`.
at::Tensor call_frequencies_like(const at::Tensor& like, std::string_view rope);
at::Tensor call_growth_like(const at::Tensor& like, std::string_view rope);

}  // namespace rotary::torch
