// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// The way back of split_heads_(): turned, side by side, and summed up over rows, in one pass.

#include "layers/eights.cuh"

namespace rotary::torch::cuda {
namespace {

/// Rows whose loads are under way together.
constexpr int kRows = 2;

/// A thread has the same eight columns of every part, and the rows of its block: the parts share
/// what they are turned by.
template <typename T, int kParts>
__global__ void __launch_bounds__(kThreads, kJoinWarps / kWarps)
    join_heads(const __grid_constant__ JoinHeads job) {
  const int column = kDrawn * static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  if (column >= job.width) return;
  const std::int64_t each = (job.rows + gridDim.y - 1) / gridDim.y;
  const std::int64_t first = each * blockIdx.y;
  const std::int64_t end = first + each < job.rows ? first + each : job.rows;
  const int pair = column % job.head_dim;
  Eight sums[kParts] = {};
  for (std::int64_t row = first; row < end; row += kRows) {
    Raw<T> raw[kRows][kParts];
    Eight angles[kRows];
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
      if (row + r >= end) continue;
#pragma unroll
      for (int p = 0; p < kParts; ++p) {
        raw[r][p] = load_raw(static_cast<const T*>(job.from[p]) + (row + r) * job.step[p] + column);
      }
      if (job.turned > 0) {
        const std::int64_t place =
            job.places == nullptr ? (row + r) % job.tokens : job.places[row + r];
        angles[r] = load_eight(job.angles + place * job.head_dim + pair);
      }
    }
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
      if (row + r >= end) continue;
#pragma unroll
      for (int p = 0; p < kParts; ++p) {
        Eight x = widen_all(raw[r][p]);
        if (p < job.turned) {
#pragma unroll
          for (int i = 0; i < kDrawn; i += 2) {
            const float c = angles[r].at[i];
            const float s = angles[r].at[i + 1];
            const float a = x.at[i];
            const float b = x.at[i + 1];
            x.at[i] = c * a + s * b;
            x.at[i + 1] = c * b - s * a;
          }
        }
#pragma unroll
        for (int i = 0; i < kDrawn; ++i) sums[p].at[i] += x.at[i];
        store_eight(
            static_cast<T*>(job.to) + (row + r) * (kParts * job.width) + p * job.width + column, x);
      }
    }
  }
#pragma unroll
  for (int p = 0; p < kParts; ++p) {
    store_eight(job.partial + (std::int64_t{blockIdx.y} * kParts + p) * job.width + column,
                sums[p]);
  }
}

}  // namespace

int launch_join_heads(const JoinHeads& job, LayerType type, void* stream) {
  const dim3 grid(static_cast<unsigned>(tile_columns(job.width)),
                  static_cast<unsigned>(join_rows(job.rows, job.width)));
  return by_type(type, [&](auto zero) {
    using T = decltype(zero);
    const auto on = static_cast<cudaStream_t>(stream);
    const int threads = kWarp * join_warps(job.width);
    if (job.parts == 1) join_heads<T, 1><<<grid, threads, 0, on>>>(job);
    if (job.parts == 2) join_heads<T, 2><<<grid, threads, 0, on>>>(job);
    if (job.parts == 3) join_heads<T, 3><<<grid, threads, 0, on>>>(job);
  });
}

}  // namespace rotary::torch::cuda
