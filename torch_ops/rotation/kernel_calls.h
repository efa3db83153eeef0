// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// What the kernels of all operators share.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/util/Exception.h>

#include <optional>
#include <stdexcept>

#include "rotary/cuda.h"
#include "rotary/error.h"

namespace rotary::torch {

/// Of a tensor as the library takes it.
inline constexpr std::int64_t kMostDimensions = 4;

/// The stream that is current for the tensor's device.
Stream stream_of(const at::Tensor& x);

/// The device that must be current for kernels on `x`; none on the CPU.
inline std::optional<c10::Device> device_to_use(const at::Tensor& x) {
  return x.is_cuda() ? std::make_optional(x.device()) : std::nullopt;
}

/// Leading dimensions as one. A copy, if `x` cannot be viewed so.
inline at::Tensor with_one_batch(const at::Tensor& x) {
  if (x.dim() <= kMostDimensions) return x;
  return x.reshape({-1, x.size(-3), x.size(-2), x.size(-1)});
}

/// What the library throws, as PyTorch does.
template <typename Work>
void translate(const Work& work) {
  try {
    work();
  } catch (const std::invalid_argument& error) {
    C10_THROW_ERROR(ValueError, error.what());
  } catch (const CudaError& error) {
    C10_THROW_ERROR(Error, error.what());
  }
}

}  // namespace rotary::torch
