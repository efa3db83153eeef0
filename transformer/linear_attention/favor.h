// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// FAVOR+ for causal attention, torch.ops.rotary.favor: random features of queries and keys and the
// denominator in one operator. "accum" is accum_type() of scans.h.
#pragma once

#include <ATen/core/Tensor.h>

#include <optional>
#include <tuple>

#include "rotary/transformer/linear_attention.h"

namespace rotary::transformer {

/// q and k are both [batch, heads, tokens, head_dim]; only they are differentiable.
struct FavorInputs {
  const at::Tensor& q;
  const at::Tensor& k;
  const at::Tensor& projection;              // [features, head_dim]
  const std::optional<at::Tensor>& padding;  // bool [batch, tokens]: true for a key
  /// Rotation of features in adjacent pairs: cos and sin, [tokens, features / 2, 2].
  const std::optional<at::Tensor>& cos_sin;
};

/// R phi(q); R phi(k), 0 for padding; dots_i = phi(q_i) . sum_{j <= i} phi(k_j), accum.
struct FavorFeatures {
  at::Tensor queries{};
  at::Tensor keys{};
  at::Tensor dots{};
};
/// Saves q and k only; backward recomputes features.
FavorFeatures call_favor(const FavorInputs& in);

/// Whether the kernel can rotate features itself, which is faster than a rotation after it: the
/// rope has constant frequencies over all features, and there is a kernel for q.
bool favor_can_rotate(const at::Tensor& q, const LinearAttendOptions& options);

/// By differentiable tensor operations: queries, keys, dots, and, saved for backward, the
/// stabilisers of queries [batch, heads, tokens], accum, and the kernel's prefix sums of keys, 0
/// without a kernel; the gradients of q and k.
using FavorResults = std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor, at::Tensor>;
using FavorGradients = std::tuple<at::Tensor, at::Tensor>;
struct FeatureGradients {
  const std::optional<at::Tensor>& queries;
  const std::optional<at::Tensor>& keys;
  const std::optional<at::Tensor>& dots;
};
c10::SymDimVector favor_prefix_sizes(const FavorInputs& in);
FavorResults favor_by_tensors(const FavorInputs& in);
FavorGradients favor_gradients_by_tensors(const FeatureGradients& g, const FavorInputs& in,
                                          const at::Tensor& row_max);

}  // namespace rotary::transformer
