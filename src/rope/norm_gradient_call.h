// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// The arguments of Rope::norm_gradient and TableRope::norm_gradient, checked.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "engine/norm_kernel.h"
#include "rope/norm_call.h"
#include "rope/validate.h"
#include "rotary/norm.h"
#include "rotary/operands.h"
#include "rotary/positions.h"
#include "rotary/table.h"

namespace rotary::internal {

class NormGradientCall {
 public:
  /// Throws std::invalid_argument as Rope::norm_gradient promises.
  NormGradientCall(std::span<const NormGradientOperand> tensors, const HeadNorm& norm,
                   std::int64_t head_dim);

  /// Throws if positions share memory with what is written.
  void check_apart(const Positions& positions) const;
  /// Throws if a table shares memory with what is written.
  void check_apart(const CosSinTable& table) const;

  /// The gradients of the results, [batch, tokens, heads, head_dim]; `out` is `in`.
  std::span<const Operand> gradients() const noexcept { return gradients_.list(); }
  std::span<const NormGradientTensors> tensors() const noexcept { return tensors_; }
  const NormTables& tables() const noexcept { return tables_; }

  /// Bytes of the workspace on CUDA; 0 on the CPU, and where no gradient of a weight is wanted.
  std::size_t workspace() const noexcept;
  /// Throws for one that is too small or misaligned.
  void check_workspace(std::span<std::byte> given) const;

  /// The gradients of weights and biases where there are no tokens: zeros.
  void clear() const noexcept;

 private:
  void add(const NormGradientOperand& given, std::int64_t head_dim);
  void check_memory_apart() const;

  OperandList gradients_;
  std::vector<NormGradientTensors> tensors_;
  NormTables tables_;
};

}  // namespace rotary::internal
