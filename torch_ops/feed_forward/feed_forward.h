// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// The feed-forward layer's own operator, and whether a call is one for it.
#pragma once

#include <ATen/core/Tensor.h>

namespace rotary::torch {

/// Whether there is a kernel for these on their device that is quicker than products of matrices
/// with bias_gelu() in between.
bool feed_forward_fits(const at::Tensor& x, const at::Tensor& inner, const at::Tensor& outer);

}  // namespace rotary::torch
