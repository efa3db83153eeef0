// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// Backward of split_heads_() in one pass: gradients rotated back, concatenated, and summed over
// rows.

#include "transformer/layers/vec.cuh"

namespace rotary::transformer::cuda {
namespace {

/// Rotates four pairs back.
__device__ void rotate_back(const Vec<float>& cos_sin, Vec<float>& x) {
#pragma unroll
  for (int i = 0; i < kVecSize; i += 2) {
    const float c = cos_sin[i];
    const float s = cos_sin[i + 1];
    const float a = x[i];
    const float b = x[i + 1];
    x[i] = c * a + s * b;
    x[i + 1] = c * b - s * a;
  }
}

/// A thread has the same eight columns of every projection, and every gridDim.y-th row. Rows go
/// from the last to the first: what the kernel before wrote last is still in the L2 cache. Cos and
/// sin are loaded once for all projections.
template <typename T, int kProjections>
__global__ void __launch_bounds__(kThreads, kSplitHeadsWarps / kWarps)
    split_heads_backward(const __grid_constant__ SplitHeadsBackward params) {
  const int column = kVecSize * static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  if (column >= params.width) return;
  const int head_column = column % params.head_dim;
  Vec<float> sums[kProjections] = {};
  const int step = static_cast<int>(gridDim.y);
  for (int row = params.rows - 1 - static_cast<int>(blockIdx.y); row >= 0; row -= step) {
    Vec<T> raw[kProjections];
#pragma unroll
    for (int p = 0; p < kProjections; ++p) {
      raw[p] = Vec<T>::load(static_cast<const T*>(params.grads[p]) + row * params.row_stride[p] +
                            column);
    }
    Vec<float> cos_sin{};
    if (params.rotated > 0) {
      const std::int64_t table_row = params.table_rows == nullptr
                                         ? static_cast<unsigned>(row) % params.tokens
                                         : params.table_rows[row];
      cos_sin = load_vec(params.cos_sin + table_row * params.head_dim + head_column);
    }
    T* to = static_cast<T*>(params.dproduct) + std::int64_t{row} * (kProjections * params.width) +
            column;
#pragma unroll
    for (int p = 0; p < kProjections; ++p) {
      Vec<float> x = raw[p].to_float();
      if (p < params.rotated) rotate_back(cos_sin, x);
#pragma unroll
      for (int i = 0; i < kVecSize; ++i) sums[p][i] += x[i];
      store_vec(to + p * params.width, x);
    }
  }
#pragma unroll
  for (int p = 0; p < kProjections; ++p) {
    store_vec(
        params.partial + (std::int64_t{blockIdx.y} * kProjections + p) * params.width + column,
        sums[p]);
  }
}

}  // namespace

int launch_split_heads_backward(const SplitHeadsBackward& params, ElementType type, void* stream) {
  const dim3 grid(static_cast<unsigned>(column_tiles(params.width)),
                  static_cast<unsigned>(split_heads_blocks(params.rows, params.width)));
  return dispatch(type, [&](auto zero) {
    using T = decltype(zero);
    const auto on = static_cast<cudaStream_t>(stream);
    const int threads = kWarpSize * split_heads_warps(params.width);
    if (params.projections == 1) split_heads_backward<T, 1><<<grid, threads, 0, on>>>(params);
    if (params.projections == 2) split_heads_backward<T, 2><<<grid, threads, 0, on>>>(params);
    if (params.projections == 3) split_heads_backward<T, 3><<<grid, threads, 0, on>>>(params);
  });
}

}  // namespace rotary::transformer::cuda
