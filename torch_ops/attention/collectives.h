// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// PyTorch's collectives as differentiable operators: each is the other's transpose.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string_view>

namespace rotary::torch {

/// torch.ops.rotary.all_gather: x [n, ..] of all ranks, end to end.
at::Tensor call_all_gather(const at::Tensor& x, std::string_view group, std::int64_t ranks);
/// torch.ops.rotary.reduce_scatter: this rank's part of the sum of all x [ranks n, ..].
at::Tensor call_reduce_scatter(const at::Tensor& x, std::string_view group, std::int64_t ranks);

}  // namespace rotary::torch
