// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// Feature maps of queries and keys.
#pragma once

#include <ATen/core/Tensor.h>

#include <optional>

#include "rotary/torch_linear_attention.h"

namespace rotary::torch {

enum class Side { kQuery, kKey };

/// phi(x) of [.., tokens, head_dim]: as wide as x, or FAVOR+ [.., tokens, features].
///
/// FAVOR+: phi(x) = (exp(w . x' - |x'|^2 / 2 - c) + 1e-4) / sqrt(features), x' = x head_dim^(-1/4),
/// for every row w of the projection. The stabiliser c, a constant to derivatives, is the largest
/// w . x': of a query its own, of keys that of all tokens of the head, as in the authors' code.
/// Where it is causal keys have c = 0, since a maximum over tokens would look ahead; their
/// exponents are at most |w|^2 / 2, about head_dim / 2.
at::Tensor feature_map(const at::Tensor& x, Side side, const LinearAttendOptions& options);

/// FAVOR+ of causal queries and keys at once, torch.ops.rotary.favor: phi(q), phi(k), which is 0
/// where `seen` [batch, keys], bool, is not, and dots_i = phi(q_i) . sum_{j <= i} phi(k_j), wide. It
/// keeps q and k alone and computes features once more on the way back. The projection is constant
/// to derivatives. q and k are [batch, heads, tokens, head_dim] both.
struct Favor {
  at::Tensor queries{};
  at::Tensor keys{};
  at::Tensor dots{};
};
Favor call_favor(const at::Tensor& q, const at::Tensor& k, const at::Tensor& projection,
                 const std::optional<at::Tensor>& seen);

/// What FAVOR+'s exponents are made of, wide: w . x' [.., features], x', |x'|^2 / 2 [.., 1].
struct Projected {
  Projected(const at::Tensor& x, const at::Tensor& projection);
  /// exp(w . x' - |x'|^2 / 2 - c) / sqrt(features).
  at::Tensor exponentials(const std::optional<at::Tensor>& c) const;
  /// phi, in the type that features of `type` have: float16 does not hold the exponents of keys.
  at::Tensor features(const std::optional<at::Tensor>& c, at::ScalarType type) const;

  at::Tensor products;
  at::Tensor scaled;
  at::Tensor half_square;
};
/// head_dim^(-1/4).
double favor_shrink(const at::Tensor& projection);

}  // namespace rotary::torch
