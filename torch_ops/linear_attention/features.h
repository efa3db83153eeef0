// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// Feature maps of queries and keys.
#pragma once

#include <ATen/core/Tensor.h>

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

}  // namespace rotary::torch
