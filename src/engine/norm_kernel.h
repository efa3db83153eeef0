// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// The interface between Rope::norm_rotate(), TableRope::norm_rotate() and the engines.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "engine/kernel.h"
#include "rotary/norm.h"
#include "rotary/operands.h"
#include "rotary/threads.h"

namespace rotary::internal {

/// sum_lanes of the order of PyTorch's norms on CUDA.
inline constexpr int kWarpSums = 32;

/// A norm as its kernels take it.
struct NormScalars {
  bool has_mean = false;      // LayerNorm: the mean is subtracted
  bool across_heads = false;  // one norm of all heads of a token
  bool in_steps = false;      // rounded to the tensor's type before the weight too
  float eps = 0.0f;
  int sum_lanes = 4;
};

/// What a norm is multiplied by, and, with has_mean, what is added to it: [head_dim], or
/// [heads * head_dim] across heads.
struct NormTable {
  const float* factors = nullptr;
  const float* biases = nullptr;
};

/// Weight and bias in device memory, as NormOperand has them; no data: none.
struct DeviceNormTable {
  ConstTensorView weight{};
  ConstTensorView bias{};
};

/// Parameters of a norm and a rotation. Operands are float32, bfloat16 or float16.
struct NormParams {
  const RotateParams& rotation;
  std::span<const NormTable> tables{};  // of each operand, on the CPU
  std::span<const DeviceNormTable> device_tables{};
  bool adds_one = false;  // to the weights of device_tables
  NormScalars norm{};
  NormRounding rounding = NormRounding::kTensor;
  NormOrder order = NormOrder::kBeforeRotation;
};

/// Allocates scratch memory, unless heads are contiguous, keep their pairing and have a norm each
/// before the rotation.
void norm_rotate_on_cpu(const NormParams& params, const Threads& threads);

/// The same for the tokens of rank first .. last - 1 (batch * tokens + token), on this thread.
void norm_rotate_tokens_on_cpu(const NormParams& params, std::int64_t first, std::int64_t last);

/// The CUDA engine, or its stub, as in kernel.h.
void norm_rotate_on_cuda(std::string_view function, const NormParams& params, const Stream& stream);

/// Throws std::invalid_argument for sizes that no fused kernel takes: a rotary slice whose pairs do
/// not fit one launch, or too many heads.
void check_fused_on_cuda(std::string_view function, const RotateParams& params);

/// One operand of a gradient. `grad_in` may have no data, and is then not written.
struct NormGradientTensors {
  ConstTensorView in{};  // [batch, tokens, heads, head_dim], as the others
  ConstTensorView grad_out{};
  TensorView grad_in{};
  std::span<double> grad_factors{};  // as NormTable; empty if not wanted
  std::span<double> grad_biases{};
};

/// The gradient of a norm before the rotation. The rotation of `params` is the adjoint, and the
/// operands of its rotation are the gradients of the results, in place of nothing: `out` is unused.
void norm_gradient_on_cpu(const NormParams& params, std::span<const NormGradientTensors> tensors,
                          const Threads& threads);

/// The same on CUDA. Gradients of weights and biases are in device memory; `workspace` has at least
/// norm_gradient_workspace_on_cuda(...) bytes, aligned to 256, where any is wanted.
void norm_gradient_on_cuda(std::string_view function, const NormParams& params,
                           std::span<const NormGradientTensors> tensors,
                           std::span<std::byte> workspace, const Stream& stream);
/// `weights`: elements of the weights of all operands.
std::size_t norm_gradient_workspace_on_cuda(std::int64_t batch, std::int64_t tokens,
                                            std::int64_t weights) noexcept;

}  // namespace rotary::internal
