// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// The arguments of kernels that normalise heads, the same for all targets.
#pragma once

#include <cstdint>

#include "engine/norm_kernel.h"
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
  NormTable table;
  NormScalars norm;
};

/// Factors or biases of a rotary slice.
struct NormSlice {
  const float* all;  // [2 * pairs], in the order of the elements
  const float* x;    // [pairs]: of the first element of each pair, in the layout of the kernel
  const float* y;
  std::int64_t odd_begin;  // of RowLayout::kEvenOdd
};

/// The heads of a token for a fused kernel. Strides count elements; elements are contiguous.
struct FusedHeads {
  std::int64_t in_token_bytes, out_token_bytes;  // from a token to the next
  std::int64_t in_stride, out_stride;
  std::int64_t heads, head_dim;
  std::int64_t rotary_offset, pairs;
  bool prefetches;  // inputs are in memory, not in a cache
  bool in_place;
  bool streams;  // results bypass the caches
  NormScalars norm;
  NormTable table;
  NormSlice factors;
  NormSlice biases;
};

}  // namespace rotary::internal
