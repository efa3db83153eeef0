// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// Dispatch from a run-time DType to an element type of device/elements.cuh.
#pragma once

#include <cuda_runtime.h>

#include "cuda/device/elements.cuh"
#include "rotary/tensor.h"

namespace rotary::internal::cuda {

/// Calls launch(Element{}) for the element types that compute in float32.
template <typename Launch>
cudaError_t dispatch_float32_compute(DType type, const Launch& launch) noexcept {
  switch (type) {
    case DType::kFloat16:
      return launch(Float16{});
    case DType::kBFloat16:
      return launch(BFloat16{});
    case DType::kFloat32:
      return launch(Float32{});
    default:
      return cudaErrorInvalidValue;
  }
}

/// The same, and float64.
template <typename Launch>
cudaError_t dispatch_element(DType type, const Launch& launch) noexcept {
  return type == DType::kFloat64 ? launch(Float64{}) : dispatch_float32_compute(type, launch);
}

}  // namespace rotary::internal::cuda
