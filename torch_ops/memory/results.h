// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// Room for results: on the CPU in memory that is used again (rotary/torch_memory.h), on CUDA in
// PyTorch's pool, by the shortest way.
#pragma once

#include <ATen/core/Tensor.h>

namespace rotary::torch {

/// Not initialised, on the device of `like`, which is the current one, and of its type.
at::Tensor empty_result(const at::Tensor& like, at::IntArrayRef sizes, at::IntArrayRef strides);

/// What at::empty_like(x) gives, without its ways through the dispatcher.
at::Tensor empty_result_like(const at::Tensor& x);

}  // namespace rotary::torch
