// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// Gradients of frequencies, positions and scale. The rows (tokens of all batch rows, end to end)
// are split into chunks, whose number depends on the sizes alone. One block sums each chunk, and a
// second kernel reduces the chunks in a fixed order. So the sums are deterministic: the same bits
// in every run and on every GPU.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>

#include "cuda/params.h"
#include "engine/kernel.h"

namespace rotary::internal::cuda {

/// Pairs per thread when vectorised.
inline constexpr int kFloatPairsPerThread = 8;
inline constexpr int kDoublePairsPerThread = 2;

/// Input of the rotation and gradient of its output. Strides are in bytes.
struct GradientTensor {
  const void* in = nullptr;    // [batch, tokens, heads, head_dim]
  const void* grad = nullptr;  // [batch, tokens, heads, head_dim]
  std::int64_t in_strides[4] = {0, 0, 0, 0};
  std::int64_t grad_strides[4] = {0, 0, 0, 0};
  std::int32_t heads = 0;
  DType type = DType::kFloat32;
};

/// One launch of partial sums: a range of pairs, tensors of one compute type.
struct GradientKernelParams : GeneralParams {
  GradientTensor tensors[kMaxOperands];
  std::int32_t num_tensors = 0;
  std::int32_t frequency_plane = -1;  // offset in words: frequencies in radians, doubles
  std::int64_t rows = 0;              // batch * tokens
  std::int64_t chunk_rows = 0;
  std::int32_t chunks = 0;
  std::int32_t position_axes = 0;    // axes of the position gradients: `axes`, or 1 for their sum
  double* partial_sums = nullptr;    // [pairs * axes + 1, chunks]; the last row is the scale's
  double* position_grads = nullptr;  // [position_axes, batch, tokens]; or null
  std::int64_t position_strides[3] = {0, 0, 0};
  bool wants_frequencies = false;
  bool wants_scale = false;
  /// Adds to the sums of earlier launches: of the same pairs (frequencies), of any pairs (others).
  bool accumulates_frequencies = false;
  bool accumulates_others = false;
  bool vectorized = false;     // aligned 16-byte packs, no change of pairing
  bool same_position = false;  // tokens have the same position on all axes
};
static_assert(sizeof(GradientKernelParams) <= kMaxParameterBytes);

/// Reduction of the chunks. Frequencies and scale are null where they are not wanted.
struct ChunkReductionParams {
  const double* partial_sums = nullptr;  // [entries + 1, chunks]
  std::int64_t chunks = 0;
  std::int64_t entries = 0;
  double* frequencies = nullptr;  // [entries]
  double* scale = nullptr;
  double divisor = 1.0;  // the scale's gradient is its sum / divisor
  bool overlaps = false;
};

/// Reduction over the batch, for positions that all batch rows share.
struct BatchReductionParams {
  const double* from = nullptr;  // [axes, batch, tokens]
  double* to = nullptr;          // [axes, tokens]
  std::int64_t to_axis = 0;
  std::int64_t to_token = 0;
  std::int64_t axes = 0;
  std::int64_t batch = 0;
  std::int64_t tokens = 0;
  bool overlaps = false;
};

/// Partial sums. `is_double`: the tensors are float64.
cudaError_t sum_gradients(const GradientKernelParams& params, bool is_double,
                          cudaStream_t stream) noexcept;
cudaError_t reduce_chunks(const ChunkReductionParams& params, cudaStream_t stream) noexcept;
cudaError_t reduce_batches(const BatchReductionParams& params, cudaStream_t stream) noexcept;

/// Returns the error of the first launch that failed.
cudaError_t launch_gradient(const GradientParams& params, bool overlaps,
                            cudaStream_t stream) noexcept;

}  // namespace rotary::internal::cuda
