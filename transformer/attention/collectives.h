// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// PyTorch's collectives as differentiable operators: each is the other's backward.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string_view>

namespace rotary::transformer {

/// torch.ops.rotary.all_gather: x [n, ..] of all ranks, concatenated to [ranks n, ..].
at::Tensor call_all_gather(const at::Tensor& x, std::string_view group, std::int64_t ranks);
/// torch.ops.rotary.reduce_scatter: this rank's [n, ..] of the sum over ranks of x [ranks n, ..].
at::Tensor call_reduce_scatter(const at::Tensor& x, std::string_view group, std::int64_t ranks);

}  // namespace rotary::transformer
