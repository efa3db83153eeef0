// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// The CUDA device and stream of a call.
#pragma once

#include <ATen/core/Tensor.h>

#include <optional>

#include "rotary/cuda.h"

namespace rotary::torch {

/// PyTorch's current stream of the tensor's device.
Stream stream_of(const at::Tensor& x);

/// The device that must be current for kernels on `x`; none on the CPU.
inline std::optional<c10::Device> cuda_device_of(const at::Tensor& x) {
  return x.is_cuda() ? std::make_optional(x.device()) : std::nullopt;
}

}  // namespace rotary::torch
