// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

/// Norm of every head before its rotation, as Qwen3, Gemma 3 and others have it, in one pass.
///
///   rope.norm_rotate({{q, q_weight}, {k, k_weight}}, {.eps = 1e-6}, positions);   // in place
///   rope.norm_rotate({{{q, q_out}, q_weight}}, {}, positions);                    // q alone
///
/// A head x of n elements becomes x / sqrt(mean(x^2) + eps) * weight, in float32, and is rotated.
#pragma once

#include <cstdint>

#include "rotary/operands.h"
#include "rotary/tensor.h"

namespace rotary {

enum class NormKind : std::uint8_t {
  kNone,        // rotation alone; weights are not read
  kRms,         // times the weight
  kRmsOnePlus,  // times 1 + weight, as in Gemma
};

/// Where bfloat16 and float16 are rounded. float32 is the same either way.
enum class NormRounding : std::uint8_t {
  kTensor,   // after the norm and after the rotation: the bits of a norm, then rotate()
  kFloat32,  // after the rotation only
};

struct HeadNorm {
  NormKind kind = NormKind::kRms;
  double eps = 1e-6;
  NormRounding rounding = NormRounding::kTensor;
  /// 4, 8 or 16. Squares are summed in the order of PyTorch's reductions on the CPU with vectors of
  /// so many floats: 4 on AArch64, 8 with AVX2, 16 with AVX-512. Then rms_norm has the same bits.
  int sum_lanes = 4;
};

/// A tensor and the weight of its norm: [head_dim] of float32, bfloat16 or float16 with stride 1;
/// empty (no data) for 1.
struct NormOperand {
  NormOperand(const Operand& x, const ConstTensorView& w = {}) noexcept  // NOLINT: {q, weight}
      : tensors(x), weight(w) {}

  Operand tensors;
  ConstTensorView weight;
};

/// Maximum head_dim of a norm.
inline constexpr std::int64_t kMaxNormHeadDim = 2048;

}  // namespace rotary
