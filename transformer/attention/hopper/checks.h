// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// Dropout probabilities, argument checks and result tensors of torch.ops.rotary.fused_attention*.
#pragma once

#include <ATen/Functions.h>
#include <ATen/core/Tensor.h>
#include <c10/util/Exception.h>

#include <optional>

#include "transformer/attention/hopper/kernels.h"
#include "transformer/kernels/philox.h"

namespace rotary::transformer {

/// keep_prob in steps of 1 / kDropoutSteps.
inline int keep_steps(double dropout) {
  return static_cast<int>(kDropoutSteps - drop_threshold(dropout));
}
/// False where the probability rounds to 0.
inline bool drops(double dropout) { return keep_steps(dropout) < static_cast<int>(kDropoutSteps); }
/// 1 / keep_prob.
inline double inv_keep_prob(double dropout) {
  return static_cast<double>(kDropoutSteps) / keep_steps(dropout);
}

inline void check_seed(const at::Tensor& seed) {
  TORCH_CHECK_VALUE(seed.numel() == 1 && seed.scalar_type() == at::kLong,
                    "[fused_attention] seed must be one number of int64, got ", seed.sizes(),
                    " of ", seed.scalar_type());
}

inline void check_fused_attention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                                  const std::optional<at::Tensor>& seed, double dropout) {
  TORCH_CHECK_VALUE(q.dim() == 4 && k.dim() == 4 && v.sizes() == k.sizes() &&
                        q.size(0) == k.size(0) && q.size(1) == k.size(1) &&
                        q.size(3) == k.size(3) && k.size(2) > 0,
                    "[fused_attention] q, k and v must be [batch, heads, tokens, head_dim], got ",
                    q.sizes(), ", ", k.sizes(), " and ", v.sizes());
  TORCH_CHECK_VALUE(q.scalar_type() == k.scalar_type() && q.scalar_type() == v.scalar_type() &&
                        q.device() == k.device() && q.device() == v.device(),
                    "[fused_attention] q, k and v must be of one type, on one device");
  TORCH_CHECK_VALUE(dropout >= 0.0 && keep_steps(dropout) > 0,
                    "[fused_attention] dropout must be at least 0 and below 1, got ", dropout);
  if (!drops(dropout)) return;
  TORCH_CHECK_VALUE(seed.has_value() && seed->device() == q.device(),
                    "[fused_attention] dropout needs a seed on the device of q");
  check_seed(*seed);
}

/// Queries, rounded up to whole blocks.
inline std::int64_t lse_tokens(const at::Tensor& q) {
  return (q.size(2) + hopper::attention::kBlockSize - 1) / hopper::attention::kBlockSize *
         hopper::attention::kBlockSize;
}

/// `has_masks`: masks are given, and their own check follows.
inline void check_fused_attention_backward(const at::Tensor& grad, const at::Tensor& q,
                                           const at::Tensor& k, const at::Tensor& v,
                                           const at::Tensor& y, const at::Tensor& lse,
                                           const std::optional<at::Tensor>& seed, double dropout,
                                           bool has_masks) {
  TORCH_CHECK_VALUE(dropout >= 0.0 && keep_steps(dropout) > 0,
                    "[fused_attention] dropout must be at least 0 and below 1, got ", dropout);
  check_fused_attention(q, k, v, seed, has_masks ? 0.0 : dropout);
  const std::int64_t rows[] = {q.size(0), q.size(1), lse_tokens(q)};
  TORCH_CHECK_VALUE(
      grad.sizes() == q.sizes() && y.sizes() == q.sizes() && lse.sizes() == at::IntArrayRef(rows),
      "[fused_attention] the gradient, y and lse must be what fused_attention "
      "returned for q of ",
      q.sizes(), ", got ", grad.sizes(), ", ", y.sizes(), " and ", lse.sizes());
  TORCH_CHECK_VALUE(grad.device() == q.device() && y.device() == q.device() &&
                        lse.device() == q.device() && y.scalar_type() == q.scalar_type(),
                    "[fused_attention] the gradient, y and lse must be on the device of q, and y "
                    "of its type");
}

/// [batch, heads, tokens, head_dim] as x, uninitialised, [batch, tokens, heads, head_dim] in
/// memory.
inline at::Tensor empty_heads_like(const at::Tensor& x) {
  return at::empty_symint({x.sym_size(0), x.sym_size(2), x.sym_size(1), x.sym_size(3)}, x.options())
      .transpose(1, 2);
}

}  // namespace rotary::transformer
