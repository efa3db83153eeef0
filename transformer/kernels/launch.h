// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// Host side of a kernel launch: the element type of a tensor, and the check of what a launcher
// returned. Launchers return cudaGetLastError() as an int, so that callers need no CUDA header.
#pragma once

#include <c10/core/ScalarType.h>
#include <c10/util/Exception.h>

#include "transformer/kernels/element_type.h"

namespace rotary::transformer {

namespace cuda {
/// cudaGetErrorString().
const char* error_string(int error);
}  // namespace cuda

/// Throws c10::Error with the name of `function` where a launcher failed.
inline void check_launch(const char* function, int error) {
  TORCH_CHECK(error == 0, "[", function, "] CUDA error ", error, ": ", cuda::error_string(error));
}

/// float, double, bfloat16 and half; callers have checked that it is one of them.
inline cuda::ElementType element_type(c10::ScalarType type) {
  switch (type) {
    case c10::kBFloat16:
      return cuda::ElementType::kBFloat16;
    case c10::kHalf:
      return cuda::ElementType::kFloat16;
    case c10::kDouble:
      return cuda::ElementType::kDouble;
    default:
      return cuda::ElementType::kFloat;
  }
}

}  // namespace rotary::transformer
