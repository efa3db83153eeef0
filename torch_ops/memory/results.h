// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// Room for results on the CPU. See rotary/torch_memory.h.
#pragma once

#include <ATen/core/Tensor.h>

namespace rotary::torch {

/// A tensor of these sizes on the CPU, not initialised.
at::Tensor empty_result(at::IntArrayRef sizes, at::IntArrayRef strides, at::ScalarType dtype);

/// Laid out as `x` is, as at::empty_like has it.
at::Tensor empty_result_like(const at::Tensor& x);

}  // namespace rotary::torch
