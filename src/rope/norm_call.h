// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// The arguments of norm_rotate() and norm_gradient(), checked, in the form that the engine takes.
#pragma once

#include <array>
#include <cstddef>
#include <span>
#include <string_view>
#include <vector>

#include "engine/norm_kernel.h"
#include "rope/validate.h"
#include "rotary/kv_cache.h"
#include "rotary/norm.h"
#include "rotary/operands.h"

namespace rotary::internal {

/// Throws std::invalid_argument as Rope::norm_rotate promises.
void check_norm(std::string_view function, const HeadNorm& norm, std::int64_t head_dim);
void check_norm_tensor(std::string_view function, const ConstTensorView& x);

/// The factors and biases of the operands of a call, as floats.
class NormTables {
 public:
  NormTables(std::string_view function, const HeadNorm& norm) noexcept
      : function_(function), norm_(norm) {}

  /// Those of the next operand, whose heads are `x`: [batch, tokens, heads, head_dim].
  void add(const ConstTensorView& x, const ConstTensorView& weight, const ConstTensorView& bias);

  const std::array<NormTable, kMaxOperands>& list() const noexcept { return tables_; }
  /// Those of operands on CUDA, which the host does not read.
  const std::array<DeviceNormTable, kMaxOperands>& device_list() const noexcept {
    return device_tables_;
  }
  /// Elements of a weight.
  std::int64_t size_of_weight(const ConstTensorView& x) const noexcept;

 private:
  void check_row(const ConstTensorView& x, const ConstTensorView& given) const;
  const float* floats_of(const ConstTensorView& x, const ConstTensorView& given, float offset,
                         float missing);

  std::string_view function_;
  const HeadNorm& norm_;
  std::array<std::vector<float>, 2 * kMaxOperands> memory_;
  std::size_t used_ = 0;
  std::size_t count_ = 0;
  std::array<NormTable, kMaxOperands> tables_{};
  std::array<DeviceNormTable, kMaxOperands> device_tables_{};
};

/// The rotation of a norm.
Direction direction_of(const HeadNorm& norm) noexcept;

/// What the engine takes of a norm.
NormScalars scalars_of(const HeadNorm& norm) noexcept;

/// The norm of Rope::append.
class AppendNorm {
 public:
  /// `operands`: q, if any, and k.
  AppendNorm(std::string_view function, const KvAppend& given, std::span<const Operand> operands,
             std::int64_t head_dim);
  NormParams params(const RotateParams& rotation) const noexcept;

 private:
  const HeadNorm& norm_;
  NormTables tables_;
};

class NormCall {
 public:
  NormCall(std::span<const NormOperand> tensors, const HeadNorm& norm, std::int64_t head_dim);

  /// [batch, tokens, heads, head_dim].
  std::span<const Operand> operands() const noexcept { return operands_; }
  NormParams params(const RotateParams& rotation) const noexcept;
  Direction direction() const noexcept { return direction_of(norm_); }

 private:
  const HeadNorm& norm_;
  OperandList checked_;
  std::span<const Operand> operands_;
  NormTables tables_;
};

}  // namespace rotary::internal
