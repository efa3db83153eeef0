// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

/// A norm of every head and its rotation in one pass, as Qwen3, Gemma 3, OLMo 2 and others have it.
///
///   rope.norm_rotate({{q, q_weight}, {k, k_weight}}, {.eps = 1e-6}, positions);   // in place
///   rope.norm_rotate({{{q, q_out}, q_weight}}, {}, positions);                    // q alone
///
/// With r = 1 / sqrt(mean(x^2) + eps), or r = 1 / sqrt(mean((x - mean(x))^2) + eps) for kLayer, the
/// elements x of a norm become
///   kRms         x * r * weight
///   kRmsOnePlus  x * r * (1 + weight)                  Gemma
///   kLayer       (x - mean(x)) * r * weight + bias
/// in float32, with products and sums from left to right.
#pragma once

#include <cstdint>
#include <span>

#include "rotary/operands.h"
#include "rotary/tensor.h"

namespace rotary {

enum class NormKind : std::uint8_t {
  kNone,  // rotation alone; weights are not read
  kRms,
  kRmsOnePlus,
  kLayer,
};

/// Where bfloat16 and float16 are rounded. float32 is the same in every case.
enum class NormRounding : std::uint8_t {
  kTensor,   // after the norm and after the rotation: the bits of one, then the other
  kFloat32,  // once, at the end
  /// As kTensor, and before the weight, as norms of transformers (Llama, Qwen3, GLM). For kRms.
  kEveryStep,
};

/// The elements that share a norm.
enum class NormScope : std::uint8_t {
  kHead,      // those of a head
  kAllHeads,  // those of all heads of a token (OLMo 2)
};

enum class NormOrder : std::uint8_t { kBeforeRotation, kAfterRotation };

/// Which rotation: that of Rope::rotate or of Rope::unrotate.
enum class NormRotation : std::uint8_t { kForward, kInverse };

struct HeadNorm {
  NormKind kind = NormKind::kRms;
  double eps = 1e-6;
  NormRounding rounding = NormRounding::kTensor;
  /// 4, 8, 16 or 32. Sums are formed in the order of PyTorch's reductions on the CPU, with vectors
  /// of so many floats: 4 on AArch64, 8 on x86, with AVX-512 too. Then rms_norm has its bits.
  /// 32: in that of its norms on CUDA, with the bits of rms_norm there; the fastest on CUDA, where
  /// the reciprocal root is the device's, and may differ from the CPU's in its last bit.
  int sum_lanes = 4;
  NormScope scope = NormScope::kHead;
  NormOrder order = NormOrder::kBeforeRotation;
  NormRotation rotation = NormRotation::kForward;
};

/// A tensor, the weight of its norm and, for kLayer, the bias: [head_dim], or [heads * head_dim] or
/// [heads, head_dim] for kAllHeads; contiguous, of float32, bfloat16 or float16. Empty (no data)
/// for weights that change nothing and for no bias.
struct NormOperand {
  NormOperand(const Operand& x, const ConstTensorView& w = {},  // NOLINT: {q, weight}
              const ConstTensorView& b = {}) noexcept
      : tensors(x), weight(w), bias(b) {}

  Operand tensors;
  ConstTensorView weight;
  ConstTensorView bias;
};

/// One tensor of Rope::norm_gradient.
struct NormGradientOperand {
  ConstTensorView in{};        // the input of norm_rotate()
  ConstTensorView grad_out{};  // gradient of the loss with respect to its output; the same shape
  /// Gradient with respect to `in`; not written if data is null. May be grad_out's memory.
  TensorView grad_in{};
  ConstTensorView weight{};  // as in NormOperand
  /// Gradients of weight and bias, of the size of a weight; leave empty what is not wanted.
  std::span<double> grad_weight{};
  std::span<double> grad_bias{};
};

/// Maximum head_dim of a norm.
inline constexpr std::int64_t kMaxNormHeadDim = 2048;

}  // namespace rotary
