// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

/// The tensors of one call.
///
///   rope.rotate(q, positions);                            // one, in place
///   rope.rotate({q, k}, positions);                       // two, in place
///   rope.rotate({{q, q_out}, {k, k_out}}, positions);     // two, out of place
///   rope.rotate({{q, q_8bit, q_scale}}, positions);       // into float8, on CUDA
///
/// One pair of braces lists tensors, two pairs say from where to where: {q, k} is q and k in place.
/// Rotating q and k in one call makes the angles once and starts threads once.
#pragma once

#include <initializer_list>
#include <span>

#include "rotary/tensor.h"

namespace rotary {

/// One tensor: what is read, and where the result goes.
struct Operand {
  /// In place.
  Operand(const TensorView& x) noexcept : in(x), out(x) {}  // NOLINT: {q, k} is the point
  Operand(const ConstTensorView& from, const TensorView& to, const float* scale = nullptr) noexcept
      : in(from), out(to), out_scale(scale) {}

  ConstTensorView in;
  TensorView out;
  /// Results in float8, on CUDA: the number in device memory that they are multiplied by before
  /// they are rounded (to the nearest, and to the largest where they are larger); null: 1. The rest
  /// of the head likewise. `in` is float32, bfloat16 or float16.
  const float* out_scale = nullptr;
};

/// At most this many tensors in one call.
inline constexpr int kMaxOperands = 16;

/// A view of operands, or one of them. Lives as long as the call it is made for.
class Operands {
 public:
  Operands(const TensorView& x) noexcept : one_(x) {}           // NOLINT
  Operands(const Operand& operand) noexcept : one_(operand) {}  // NOLINT
  Operands(std::span<const Operand> list) noexcept              // NOLINT
      : one_(TensorView{}), list_(list), is_list_(true) {}
  Operands(std::initializer_list<Operand> list) noexcept  // NOLINT
      : Operands(std::span<const Operand>(list.begin(), list.size())) {}

  std::span<const Operand> list() const noexcept {
    return is_list_ ? list_ : std::span<const Operand>(&one_, 1);
  }

 private:
  Operand one_;
  std::span<const Operand> list_;
  bool is_list_ = false;
};

}  // namespace rotary
