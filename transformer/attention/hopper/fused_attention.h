// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// torch.ops.rotary.fused_attention: softmax attention on the library's own kernel.
#pragma once

#include <ATen/core/Tensor.h>

namespace rotary::transformer {

/// Whether fused_attend() has a kernel for these on their device that is faster than PyTorch's. For
/// calls without any mask or bias.
bool use_fused_attention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                         double dropout);

/// softmax(scale q k^T) v with dropout of weights, its probability rounded to 2^-16; scale > 0.
at::Tensor fused_attend(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                        double dropout, double scale);

}  // namespace rotary::transformer
