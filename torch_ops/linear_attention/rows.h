// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// What is done to the vectors of tokens one by one, as operators.
#pragma once

#include <ATen/core/Tensor.h>

#include <optional>
#include <utility>

namespace rotary::torch {

/// torch.ops.rotary.elu_plus_one: x + 1 above 0, else exp(x), rounded once; elu(x) + 1 in 16 bits
/// would lose the digits of small values.
at::Tensor call_elu_plus_one(const at::Tensor& x);

/// torch.ops.rotary.unit_vectors: x / |x|, and 0 for 0, whose gradient is 0.
at::Tensor call_unit_vectors(const at::Tensor& x);

/// torch.ops.rotary.linear_reciprocals, of denominators, wide: 1 / max(sum, 1e-6); or, with bounds,
/// of sums of any sign: 1 / (sign(sum) max(|sum|, guard bound, 1e-6)).
at::Tensor call_linear_reciprocals(const at::Tensor& sums, const std::optional<at::Tensor>& bounds,
                                   double guard);

/// torch.ops.rotary.scaled_rows_and_dots: scale_i a_i, in the type of a, and a_i . b_i / scale_i,
/// wide. Is a part of derivatives and has none itself.
std::pair<at::Tensor, at::Tensor> call_scaled_rows_and_dots(const at::Tensor& a,
                                                            const at::Tensor& b,
                                                            const at::Tensor& scale);

}  // namespace rotary::torch
