// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// Parameters of norm_gradient_vectorized, and whether it takes a launch: RMS norms of each head,
// whole heads of 16-byte packs, equal pairings, exact angles at integer positions or a table.
#pragma once

#include <cstdint>

#include "cuda/norm_gradient_params.h"
#include "cuda/vectorized_params.h"

namespace rotary::internal::cuda {

inline constexpr int kMaxNormGradientThreads = 128;
inline constexpr int kNormGradientBlocks = 4;  // of a multiprocessor
/// Blocks per operand: as many as an H200 runs at once.
inline constexpr std::int32_t kVectorizedSlices = kNormGradientBlocks * 132;
/// Steps of which the packs are on their way, and their shared memory: four packs of each thread.
inline constexpr int kNormGradientStages = 2;
inline constexpr int kNormGradientStageFloats =
    kNormGradientStages * 4 * kMaxNormGradientThreads * 4;

/// One operand. Strides are in packs.
struct NormGradientTileOperand {
  const char* in = nullptr;
  const char* grad = nullptr;
  char* out = nullptr;  // null: not wanted
  const void* weight = nullptr;
  std::int64_t partial_offset = 0;
  std::int32_t in_batch = 0;
  std::int32_t in_token = 0;
  std::int32_t in_head = 0;
  std::int32_t grad_batch = 0;
  std::int32_t grad_token = 0;
  std::int32_t grad_head = 0;
  std::int32_t out_batch = 0;
  std::int32_t out_token = 0;
  std::int32_t out_head = 0;
  std::int32_t heads = 0;
  bool has_float_weight = false;  // otherwise of the tensors' type
};

struct NormGradientVectorizedParams {
  VectorizedParams angles;  // its operands are not used
  VectorizedTable table;    // unused for frequencies
  NormGradientTileOperand operands[kOperandsPerLaunch];
  double* partial = nullptr;  // [slices][partial_size]
  std::int64_t partial_size = 0;
  std::uint32_t count = 0;  // tokens of all batch rows
  std::uint32_t slices = 0;
  std::int32_t batch = 0;
  float eps = 0.0f;
  float reciprocal_size = 1.0f;  // of head_dim
  bool adds_one = false;
};

struct NormGradientShape {
  std::int32_t lanes = 0;  // that share a head; 0: the kernel does not apply
  std::uint32_t warps = 0;
  std::uint32_t shared_bytes = 0;
};

NormGradientShape make_norm_gradient_vectorized(const NormGradientParams<SimpleParams>& p,
                                                NormGradientVectorizedParams& to) noexcept;
NormGradientShape make_norm_gradient_vectorized(const NormGradientParams<TableParams>& p,
                                                NormGradientVectorizedParams& to) noexcept;

}  // namespace rotary::internal::cuda
