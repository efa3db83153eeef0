// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// The three scans that linear attention is made of. j runs over j <= i (causal), j >= i (reverse)
// or all keys (all):
//
//   linear_product  out_i = scale_i sum_j (x_i . y_j) w_j   x [.., n, K] y [.., m, K] w [.., m, E]
//   linear_dot      out_i = x_i . sum_j y_j                 x, y [.., n, K]
//   linear_sum      out_i = scale_i sum_j weight_j x_j      x [.., n, K]
//
// All cost O(n). Gradients are scans again, in the same or the transposed direction: each is an
// operator whose backward calls the others, so that gradients of any order exist.
#pragma once

#include <ATen/core/Tensor.h>

#include <optional>
#include <string_view>

namespace rotary::transformer {

enum class Direction { kCausal, kReverse, kAll };

/// "causal", "reverse" or "all".
Direction direction_of(std::string_view name);
std::string_view name_of(Direction direction);

/// The transposed mask: the direction of the gradient with respect to keys.
constexpr Direction transpose(Direction direction) noexcept {
  switch (direction) {
    case Direction::kCausal:
      return Direction::kReverse;
    case Direction::kReverse:
      return Direction::kCausal;
    case Direction::kAll:
      break;
  }
  return Direction::kAll;
}

/// Accumulator type: float64 for float64, else float32.
constexpr at::ScalarType accum_type(at::ScalarType type) noexcept {
  return type == at::kDouble ? at::kDouble : at::kFloat;
}

/// The operators, through the dispatcher. `scale` and `weight` are [.., n], of the accumulator
/// type. Results have the type of the tensors, rounded once; linear_dot has the accumulator type.
/// linear_dot and linear_sum refuse kAll: at::sum() does that.
at::Tensor call_linear_product(const at::Tensor& x, const at::Tensor& y, const at::Tensor& w,
                               const std::optional<at::Tensor>& scale, Direction direction);
at::Tensor call_linear_dot(const at::Tensor& x, const at::Tensor& y, Direction direction);
at::Tensor call_linear_sum(const at::Tensor& x, const std::optional<at::Tensor>& weight,
                           const std::optional<at::Tensor>& scale, Direction direction);

}  // namespace rotary::transformer
