// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// Linear maps on the CPU whose threads wait in OpenMP alone.
#pragma once

#include <ATen/core/Tensor.h>

namespace rotary::roformer {

/// at::linear. The products of backward are split by rows of the result over PyTorch's threads,
/// each of which computes its rows alone: threads of one OpenBLAS product wait for each other in
/// loops without bound, and beside another process spend half of their time there. Where PyTorch
/// has MKL, whose threads wait in OpenMP, and for other types and devices, at::linear itself.
/// Differentiable once. `bias` may be undefined.
at::Tensor cpu_linear(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias);

}  // namespace rotary::roformer
