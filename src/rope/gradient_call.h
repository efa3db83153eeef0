// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// The arguments of Rope::gradient, checked and in the form that engines take.
#pragma once

#include <array>
#include <cstddef>
#include <span>

#include "rope/validate.h"
#include "rotary/frequencies.h"
#include "rotary/operands.h"
#include "rotary/positions.h"
#include "rotary/rope.h"

namespace rotary::internal {

class GradientCall {
 public:
  /// Throws std::invalid_argument as Rope::gradient promises.
  GradientCall(std::span<const GradientOperand> tensors, const Positions& positions,
               const ParameterGradients& parameters, std::int64_t head_dim,
               const Frequencies& frequencies);

  bool wants_parameters() const noexcept {
    return !parameters_.frequencies.empty() || parameters_.positions.data != nullptr ||
           parameters_.scale != nullptr;
  }
  /// Views of rank 4.
  std::span<const GradientOperand> tensors() const noexcept { return {tensors_.data(), count_}; }
  /// The inputs of the forward rotation; `out` is empty.
  std::span<const Operand> inputs() const noexcept { return inputs_.list(); }
  /// From grad_out to grad_in, where grad_in is wanted.
  std::span<const Operand> adjoints() const noexcept { return adjoints_.list(); }
  /// With positions as [axes, batch or 1, tokens].
  const ParameterGradients& parameters() const noexcept { return parameters_; }

 private:
  void check_parameters(const Positions& positions, const Frequencies& frequencies);
  void check_position_gradient(const Positions& positions);
  void check_workspace(const Frequencies& frequencies) const;
  /// Throws if gradients of parameters overlap other memory of the call.
  void check_apart(const Positions& positions) const;

  std::array<GradientOperand, kMaxOperands> tensors_{};
  std::size_t count_ = 0;
  OperandList inputs_;
  OperandList adjoints_;
  ParameterGradients parameters_;
};

}  // namespace rotary::internal
