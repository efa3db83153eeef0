// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// Softmax attention on a kernel of its own: operators, and whether a call is one for them.
#pragma once

#include <ATen/core/Tensor.h>

namespace rotary::torch {

/// Whether fused_attend() takes these on their device, and is quicker there than PyTorch's kernels.
/// Every query sees every key.
bool fused_fits(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, double dropout);

/// softmax(scale q k^T) v, weights dropped with a probability of `dropout`, to 2^-16; scale > 0.
at::Tensor fused_attend(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                        double dropout, double scale);

}  // namespace rotary::torch
