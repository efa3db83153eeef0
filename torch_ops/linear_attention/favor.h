// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// FAVOR+ of causal queries and keys at once, torch.ops.rotary.favor.
#pragma once

#include <ATen/core/Tensor.h>

#include <optional>
#include <tuple>

#include "rotary/torch_linear_attention.h"

namespace rotary::torch {

/// q and k are [batch, heads, tokens, head_dim] both. Derivatives go through them alone.
struct FavorInputs {
  const at::Tensor& q;
  const at::Tensor& k;
  const at::Tensor& projection;           // [features, head_dim]
  const std::optional<at::Tensor>& seen;  // bool [batch, tokens]: where there is a key
  /// Of a rope that turns features, pairs of neighbours: cos and sin, [tokens, features / 2, 2].
  const std::optional<at::Tensor>& table;
};

/// R phi(q); R phi(k), 0 where there is no key; dots_i = phi(q_i) . sum_{j <= i} phi(k_j), wide.
struct Favor {
  at::Tensor queries{};
  at::Tensor keys{};
  at::Tensor dots{};
};
/// It keeps q and k alone and computes features once more on the way back.
Favor call_favor(const FavorInputs& in);

/// Whether the operator turns features quicker than a rotation after it does: the rope is one of
/// constant frequencies over all features, and there is a kernel.
bool favor_turns(const at::Tensor& q, const LinearAttendOptions& options);

/// By tensors, all of it differentiable: queries, keys, dots, and for the way back the stabiliser
/// of queries [batch, heads, tokens], wide, and the sums of keys before each tile of a kernel, 0
/// where there is none; the gradients of q and k.
using FavorResults = std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor, at::Tensor>;
using FavorGradients = std::tuple<at::Tensor, at::Tensor>;
struct FeatureGradients {
  const std::optional<at::Tensor>& queries;
  const std::optional<at::Tensor>& keys;
  const std::optional<at::Tensor>& dots;
};
c10::SymDimVector favor_sums_sizes(const FavorInputs& in);
FavorResults favor_by_tensors(const FavorInputs& in);
FavorGradients gradients_by_tensors(const FeatureGradients& g, const FavorInputs& in,
                                    const at::Tensor& most);

}  // namespace rotary::torch
