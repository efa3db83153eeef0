// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// Row-wise operators: feature map, L2 normalisation and denominators, one token at a time. "accum"
// is accum_type() of scans.h.
#pragma once

#include <ATen/core/Tensor.h>

#include <optional>
#include <utility>

namespace rotary::transformer {

/// torch.ops.rotary.elu_plus_one, the feature map elu(x) + 1: x + 1 above 0, else exp(x), rounded
/// once. elu(x) + 1 in 16 bits would lose the digits of small values.
at::Tensor call_elu_plus_one(const at::Tensor& x);

/// torch.ops.rotary.unit_vectors, L2 normalisation: x / |x|. A zero row stays 0, with gradient 0.
at::Tensor call_unit_vectors(const at::Tensor& x);

/// torch.ops.rotary.linear_reciprocals, the normaliser, in accum: 1 / max(sum, 1e-6); with bounds,
/// for sums of either sign: 1 / (sign(sum) max(|sum|, guard bound, 1e-6)).
at::Tensor call_linear_reciprocals(const at::Tensor& sums, const std::optional<at::Tensor>& bounds,
                                   double guard);

/// torch.ops.rotary.scaled_rows_and_dots: scale_i a_i, in the type of a, and a_i . b_i / scale_i,
/// accum. For backward only: not differentiable.
std::pair<at::Tensor, at::Tensor> call_scaled_rows_and_dots(const at::Tensor& a,
                                                            const at::Tensor& b,
                                                            const at::Tensor& scale);

}  // namespace rotary::transformer
