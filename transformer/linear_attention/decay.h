// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// Exponential decay with distance, torch.ops.rotary.linear_decay_product: linear_product of scans.h
// with every weight multiplied by e^(-decay |i - j|), as in RetNet's retention:
//
//   out_i = scale_i sum_j e^(-decay_h |i - j|) (x_i . y_j) w_j    j <= i, j >= i or all j
//
// O(n): all pairs within chunks, a decayed state between them. No exponent is positive, so that
// nothing overflows at any length; weights that fall below the smallest number become 0. Gradients
// are products of the same kind, so that those of any order exist, also of `decay`.
#pragma once

#include <ATen/core/Tensor.h>

#include <optional>

#include "transformer/linear_attention/scans.h"

namespace rotary::transformer {

/// x and y [.., heads, n, K], w [.., heads, n, E], decay [heads], floating point, not negative and
/// finite (checked on the CPU, unspecified results on CUDA), scale [.., heads, n] of the
/// accumulator type. The result has the type of the tensors, rounded once.
at::Tensor call_linear_decay_product(const at::Tensor& x, const at::Tensor& y, const at::Tensor& w,
                                     const at::Tensor& decay,
                                     const std::optional<at::Tensor>& scale, Direction direction);

/// e^(-decay_h d_i) for distances d [n]: [heads, n], in the type of `decay`. Differentiable.
at::Tensor decay_factors(const at::Tensor& decay, const at::Tensor& distances);

}  // namespace rotary::transformer
