// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// Uninitialised results, allocated without a round through the dispatcher.
#pragma once

#include <ATen/core/Tensor.h>

namespace rotary::torch {

/// at::empty_strided with the type and device of `like`; that device is the current one.
at::Tensor empty_result(const at::Tensor& like, at::IntArrayRef sizes, at::IntArrayRef strides);

/// at::empty_like.
at::Tensor empty_result_like(const at::Tensor& x);

/// With the strides of `x`, so that the result of a transposed view is one too; contiguous for more
/// than four dimensions, whose leading ones are flattened.
at::Tensor result_like(const at::Tensor& x);
at::Tensor result_like_meta(const at::Tensor& x);

}  // namespace rotary::torch
