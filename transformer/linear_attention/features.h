// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// Feature maps of queries and keys.
#pragma once

#include <ATen/core/Tensor.h>

#include "rotary/transformer/linear_attention.h"

namespace rotary::transformer {

enum class Side { kQuery, kKey };

/// Feature map phi(x) of x [.., tokens, head_dim]: of the same shape, or FAVOR+ [.., tokens,
/// features].
///
/// FAVOR+: phi(x) = (exp(w . x' - |x'|^2 / 2 - c) + 1e-4) / sqrt(features), x' = x head_dim^(-1/4),
/// for every row w of the projection. The stabiliser c, a constant for autograd, is the largest
/// w . x': per query, and for keys over all tokens of the head, as in the authors' code, or over
/// those of a packed sequence. Causal keys have c = 0, since a maximum over tokens would look
/// ahead; their exponents are at most |w|^2 / 2, about head_dim / 2.
at::Tensor feature_map(const at::Tensor& x, Side side, const LinearAttendOptions& options);

}  // namespace rotary::transformer
