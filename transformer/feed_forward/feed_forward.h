// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// Selection of the fused feed-forward operator.
#pragma once

#include <ATen/core/Tensor.h>

namespace rotary::transformer {

/// Whether torch.ops.rotary.feed_forward has a kernel for these on their device that is faster than
/// GEMMs with bias_gelu() in between.
bool use_fused_feed_forward(const at::Tensor& x, const at::Tensor& inner, const at::Tensor& outer);

}  // namespace rotary::transformer
