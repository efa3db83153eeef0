// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// The linear maps that operators apply, and the operators as C++ calls them.
#pragma once

#include <ATen/core/Tensor.h>

#include <optional>
#include <string_view>
#include <tuple>
#include <vector>

#include "rotary/torch_where.h"

namespace rotary::torch {

/// Each multiplies pairs by a complex number; z is that of the rope at the token's position.
enum class Turn {
  kRotate,           // z
  kAdjoint,          // conj(z)
  kUnrotate,         // 1 / z
  kUnrotateAdjoint,  // conj(1 / z)
  kShift,            // z at a distance, without the scale
  kShiftAdjoint,     // its conjugate
};

constexpr Turn transpose(Turn turn) noexcept {
  switch (turn) {
    case Turn::kRotate:
      return Turn::kAdjoint;
    case Turn::kAdjoint:
      return Turn::kRotate;
    case Turn::kUnrotate:
      return Turn::kUnrotateAdjoint;
    case Turn::kUnrotateAdjoint:
      return Turn::kUnrotate;
    case Turn::kShift:
      return Turn::kShiftAdjoint;
    case Turn::kShiftAdjoint:
      return Turn::kShift;
  }
  return turn;
}

/// Positions are distances, and one may stand for all tokens.
constexpr bool is_shift(Turn turn) noexcept {
  return turn == Turn::kShift || turn == Turn::kShiftAdjoint;
}

constexpr const char* name_of(Turn turn) noexcept {
  switch (turn) {
    case Turn::kRotate:
      return "rotate";
    case Turn::kAdjoint:
      return "adjoint";
    case Turn::kUnrotate:
      return "unrotate";
    case Turn::kUnrotateAdjoint:
      return "unrotate_adjoint";
    case Turn::kShift:
      return "shift";
    case Turn::kShiftAdjoint:
      return "shift_adjoint";
  }
  return "";
}

/// The operator torch.ops.rotary.<turn>, and the one in place, through the dispatcher.
std::vector<at::Tensor> call(Turn turn, at::TensorList tensors, std::string_view rope,
                             const Where& where);
void call_in_place(Turn turn, at::TensorList tensors, std::string_view rope, const Where& where);
/// The same, where copies of `where` are too dear.
std::vector<at::Tensor> call(Turn turn, at::TensorList tensors, std::string_view rope,
                             const std::optional<at::Tensor>& positions,
                             const std::optional<at::Tensor>& cu_seqlens, const c10::SymInt& first,
                             std::int64_t token_dim);
void call_in_place(Turn turn, at::TensorList tensors, std::string_view rope,
                   const std::optional<at::Tensor>& positions,
                   const std::optional<at::Tensor>& cu_seqlens, const c10::SymInt& first,
                   std::int64_t token_dim);

/// torch.ops.rotary.rotate_table or adjoint_table.
std::vector<at::Tensor> call_table(Turn turn, at::TensorList tensors, const at::Tensor& cos,
                                   const at::Tensor& sin, std::string_view rope,
                                   std::int64_t token_dim);

/// torch.ops.rotary.rotate_learned; `turn` is "rotate", "adjoint" or "unrotate".
std::vector<at::Tensor> call_learned(std::string_view turn, at::TensorList tensors,
                                     std::string_view rope, const at::Tensor& frequencies,
                                     const std::optional<at::Tensor>& scale, const Where& where);

/// torch.ops.rotary.rotate_learned_table: rotate_table whose table was made of `frequencies` and
/// `scale`, with gradients of those.
struct LearnedFrom {
  at::Tensor frequencies{};
  std::optional<at::Tensor> scale{};
};
std::vector<at::Tensor> call_learned_table(at::TensorList tensors, const at::Tensor& cos,
                                           const at::Tensor& sin, const LearnedFrom& from,
                                           std::string_view rope, const Where& where);

/// torch.ops.rotary.position_gradient and frequency_gradient: see gradient.cc.
at::Tensor call_position_gradient(at::TensorList tensors, at::TensorList grads,
                                  std::string_view rope, std::string_view pairing,
                                  std::int64_t token_dim);
std::tuple<at::Tensor, at::Tensor> call_frequency_gradient(at::TensorList tensors,
                                                           at::TensorList grads,
                                                           std::string_view rope,
                                                           const Where& where);

/// torch.ops.rotary.frequencies_like and growth_like: [pairs, axes], float64, where `like` is.
at::Tensor call_frequencies_like(const at::Tensor& like, std::string_view rope);
at::Tensor call_growth_like(const at::Tensor& like, std::string_view rope);

}  // namespace rotary::torch
