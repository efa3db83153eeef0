// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// The arguments of Rope::norm_rotate, checked and in the form that the engine takes.
#pragma once

#include <array>
#include <span>
#include <vector>

#include "rope/validate.h"
#include "rotary/norm.h"
#include "rotary/operands.h"

namespace rotary::internal {

class NormCall {
 public:
  /// Throws std::invalid_argument as Rope::norm_rotate promises.
  NormCall(std::span<const NormOperand> tensors, const HeadNorm& norm, std::int64_t head_dim);

  /// [batch, tokens, heads, head_dim].
  std::span<const Operand> operands() const noexcept { return operands_; }
  /// What the norm of each is multiplied by: its weight, or 1 + weight; null for 1.
  const std::array<const float*, kMaxOperands>& factors() const noexcept { return factors_; }

 private:
  void check_norm(const HeadNorm& norm, std::int64_t head_dim) const;

  OperandList checked_;
  std::span<const Operand> operands_;
  std::vector<float> memory_;
  std::array<const float*, kMaxOperands> factors_{};
};

}  // namespace rotary::internal
