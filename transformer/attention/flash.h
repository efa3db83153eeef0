// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// PyTorch's flash kernel, called directly: packed sequences, windows, queries behind a cache, and
// gradients that are the same in every run.
#pragma once

#include <ATen/core/Tensor.h>

#include "transformer/attention/select_kernel.h"

namespace rotary::transformer {

/// Attention of a call whose kernel is kFlash. With options.deterministic its backward pass adds
/// the gradients of queries in a fixed order, not by atomics.
at::Tensor run_flash(const at::Tensor& q, const AttentionCall& call, const AttendOptions& options);

/// The kernels require a contiguous head_dim.
at::Tensor contiguous_heads(const at::Tensor& x);

}  // namespace rotary::transformer
