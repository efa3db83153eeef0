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

}  // namespace rotary::torch
