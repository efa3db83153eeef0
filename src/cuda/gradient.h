// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// Gradients of frequencies, positions and scale. Rows (tokens of all batch rows, end to end) are
// cut into chunks whose number follows from the sizes alone; a block sums a chunk, and a second
// kernel adds the chunks in a fixed order. So the sums have the same bits in every run and on every
// GPU.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>

#include "cuda/params.h"
#include "rope/kernel.h"

namespace rotary::internal::cuda {

/// Pairs of a thread where elements lie in packs.
inline constexpr int kFloatPairs = 8;
inline constexpr int kDoublePairs = 2;

/// What was rotated and the gradient that arrives. Strides count bytes.
struct GradientTensor {
  const void* in = nullptr;    // [batch, tokens, heads, head_dim]
  const void* grad = nullptr;  // [batch, tokens, heads, head_dim]
  std::int64_t in_strides[4] = {0, 0, 0, 0};
  std::int64_t grad_strides[4] = {0, 0, 0, 0};
  std::int32_t heads = 0;
  DType type = DType::kFloat32;
};

/// The sums of one launch: a range of pairs, tensors of one arithmetic.
struct GradientParams : AnyParams {
  GradientTensor tensors[kMaxOperands];
  std::int32_t num_tensors = 0;
  std::int32_t values = -1;  // the plane of frequencies in radians, doubles
  std::int64_t rows = 0;     // batch * tokens
  std::int64_t chunk_rows = 0;
  std::int32_t chunks = 0;
  std::int32_t position_axes = 0;  // that positions get gradients for: axes, or 1 for all together
  double* sums = nullptr;          // [pairs * axes + 1, chunks]; the last row is the scale's
  double* to_positions = nullptr;  // [position_axes, batch, tokens]; or null
  std::int64_t position_strides[3] = {0, 0, 0};
  bool wants_frequencies = false;
  bool wants_scale = false;
  /// Sums of earlier launches are there: of the same pairs, or of any.
  bool adds_to_frequencies = false;
  bool adds_to_others = false;
  bool packed = false;     // elements lie in packs of 16 bytes, in one pairing
  bool one_place = false;  // a token stands at one position on all axes
};
static_assert(sizeof(GradientParams) <= kMostParameterBytes);

/// The chunks added up. Where frequencies or scale are not wanted, they are null.
struct SumParams {
  const double* sums = nullptr;  // [entries + 1, chunks]
  std::int64_t chunks = 0;
  std::int64_t entries = 0;
  double* frequencies = nullptr;  // [entries]
  double* scale = nullptr;
  double divisor = 1.0;  // of the scale's sum
  bool overlaps = false;
};

/// Gradients of positions that all batch rows share.
struct BatchSumParams {
  const double* from = nullptr;  // [axes, batch, tokens]
  double* to = nullptr;          // [axes, tokens]
  std::int64_t to_axis = 0;
  std::int64_t to_token = 0;
  std::int64_t axes = 0;
  std::int64_t batch = 0;
  std::int64_t tokens = 0;
  bool overlaps = false;
};

/// `is_double`: the tensors are float64.
cudaError_t sum_gradients(const GradientParams& params, bool is_double,
                          cudaStream_t stream) noexcept;
cudaError_t add_chunks(const SumParams& params, cudaStream_t stream) noexcept;
cudaError_t add_batches(const BatchSumParams& params, cudaStream_t stream) noexcept;

/// Returns what the first launch that failed returned.
cudaError_t gradient_job(const GradientJob& job, bool overlaps, cudaStream_t stream) noexcept;

}  // namespace rotary::internal::cuda
