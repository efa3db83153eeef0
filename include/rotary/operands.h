// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

/// The tensors of one call.
///
///   rope.rotate(q, positions);                            // one, in place
///   rope.rotate({q, k}, positions);                       // two, in place
///   rope.rotate({{q, q_out}, {k, k_out}}, positions);     // two, out of place
///   rope.rotate({{q, q_8bit, q_scale}}, positions);       // into float8, on CUDA
///
/// One pair of braces lists tensors in place, two pairs list {input, output}. Rotating q and k in
/// one call computes the angles once and starts threads once.
#pragma once

#include <initializer_list>
#include <span>

#include "rotary/tensor.h"

namespace rotary {

/// One tensor: input and output.
struct Operand {
  /// In place.
  Operand(const TensorView& x) noexcept : in(x), out(x) {}  // NOLINT: {q, k} is the point
  Operand(const ConstTensorView& from, const TensorView& to, const float* scale = nullptr) noexcept
      : in(from), out(to), out_scale(scale) {}

  ConstTensorView in;
  TensorView out;
  /// float8 output, on CUDA: a factor in device memory that multiplies the whole head before
  /// rounding (to nearest, saturating); null: 1. `in` is float32, bfloat16 or float16.
  const float* out_scale = nullptr;
};

/// Maximum number of tensors in one call.
inline constexpr int kMaxOperands = 16;

/// A view of a list of operands, or one operand. Valid for the duration of the call.
class Operands {
 public:
  Operands(const TensorView& x) noexcept : one_(x) {}           // NOLINT
  Operands(const Operand& operand) noexcept : one_(operand) {}  // NOLINT
  Operands(std::span<const Operand> list) noexcept              // NOLINT
      : list_(list), is_list_(true) {}
  Operands(std::initializer_list<Operand> list) noexcept  // NOLINT
      : Operands(std::span<const Operand>(list.begin(), list.size())) {}

  std::span<const Operand> list() const noexcept {
    return is_list_ ? list_ : std::span<const Operand>(&one_, 1);
  }

 private:
  union {
    // Unused and not initialised for a list: a decoding step would notice that.
    Operand one_;  // NOLINT(readability-identifier-naming): a member of Operands
  };
  std::span<const Operand> list_;
  bool is_list_ = false;
};

}  // namespace rotary
