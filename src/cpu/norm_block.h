// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// The arguments of a kernel that normalises heads, the same for all targets.
#pragma once

#include <cstdint>

#include "rotary/tensor.h"

namespace rotary::internal {

/// Heads of some tokens, input and output. Strides count elements; `step` is that of the elements
/// of a head.
struct NormBlock {
  const void* in;
  void* out;
  DType in_type;
  DType out_type;  // in_type, or float32, or from float32
  std::int64_t in_token_stride, in_head_stride, in_step;
  std::int64_t out_token_stride, out_head_stride, out_step;
  std::int64_t tokens, heads, head_dim;
  const float* factors;  // [head_dim], or null for 1
  float eps;
  int sum_lanes;
};

}  // namespace rotary::internal
