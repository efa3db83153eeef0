// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// Kernels of a training step over flat buffers: gathering of gradients, rows of embeddings, norms,
// clipping, AdamW. Each reads and writes its tensors once.

#include <cuda_runtime.h>

#include "transformer/kernels/packed.cuh"
#include "transformer/kernels/reduce.cuh"
#include "transformer/optimizer/kernels.h"

namespace rotary::transformer::cuda {
namespace {

constexpr int kThreads = 256;
constexpr int kVecSize = 4;  // elements of a thread's access: 16 bytes of float

using Floats = Packed<float, kVecSize>;

template <typename T>
__device__ Floats load_vec(const T* from) {
  const auto raw = Packed<T, kVecSize>::load(from);
  Floats x;
#pragma unroll
  for (int i = 0; i < kVecSize; ++i) x[i] = to_accum(raw[i]);
  return x;
}

// ---- Gather -------------------------------------------------------------------------------------

/// Copies or accumulates a block's elements. All loads of a thread are issued before its stores.
template <typename T>
__device__ void gather(const T* from, float* to, std::int64_t count, bool accumulate) {
  constexpr int kLoads = kGatherBlock / (kThreads * kVecSize);
  Floats x[kLoads];
#pragma unroll
  for (int n = 0; n < kLoads; ++n) {
    const std::int64_t i = kVecSize * (std::int64_t{n} * kThreads + threadIdx.x);
    if (i + kVecSize <= count) x[n] = load_vec(from + i);
  }
#pragma unroll
  for (int n = 0; n < kLoads; ++n) {
    const std::int64_t i = kVecSize * (std::int64_t{n} * kThreads + threadIdx.x);
    if (i + kVecSize <= count) {
      if (accumulate) {
        const Floats y = load_vec(to + i);
#pragma unroll
        for (int e = 0; e < kVecSize; ++e) x[n][e] += y[e];
      }
      x[n].store(to + i);
    } else {
      for (std::int64_t e = i; e < count; ++e) {
        to[e] = to_accum(from[e]) + (accumulate ? to[e] : 0.0F);
      }
    }
  }
}

__global__ void __launch_bounds__(kThreads)
    gather_segments(const __grid_constant__ GatherSegments params) {
  int s = 0;  // segment
  while (s + 1 < params.segments && params.first_block[s + 1] <= blockIdx.x) ++s;
  const std::int64_t first = std::int64_t{blockIdx.x - params.first_block[s]} * kGatherBlock;
  const std::int64_t left = params.count[s] - first;
  const std::int64_t count = left < kGatherBlock ? left : kGatherBlock;
  float* to = params.to[s] + first;
  switch (params.type[s]) {
    case ElementType::kFloat:
      return gather(static_cast<const float*>(params.from[s]) + first, to, count,
                    params.accumulate);
    case ElementType::kBFloat16:
      return gather(static_cast<const __nv_bfloat16*>(params.from[s]) + first, to, count,
                    params.accumulate);
    case ElementType::kFloat16:
      return gather(static_cast<const __half*>(params.from[s]) + first, to, count,
                    params.accumulate);
    case ElementType::kDouble:
      return;  // refused by gather_segments()
  }
}

// ---- Rows of a table ----------------------------------------------------------------------------

/// Adds the sum of a run of equal rows within a chunk to the table. A run that crosses the chunk's
/// border is stored as an open run for add_open_runs() instead: [0] of the chunk for one that began
/// in an earlier chunk, [1] for one that begins in this chunk.
__device__ void add_run(const AddRows& params, std::int64_t first, std::int64_t end, int column,
                        const Floats& sum) {
  const std::int32_t row = params.rows[first];
  const std::int64_t chunk = first / kRowChunk;
  const bool began_before =
      first == chunk * kRowChunk && first > 0 && params.rows[first - 1] == row;
  const bool continues = end < params.count && params.rows[end] == row;
  if (began_before || continues) {
    sum.store(params.open + (2 * chunk + (began_before ? 0 : 1)) * params.width + column);
  } else if (row != params.skipped) {
    float* to = params.table + std::int64_t{row} * params.width + column;
    Floats all = load_vec(to);
#pragma unroll
    for (int e = 0; e < kVecSize; ++e) all[e] += sum[e];
    all.store(to);
  }
}

/// A block has one chunk of the sorted rows, a thread four columns.
template <typename T>
__global__ void __launch_bounds__(kThreads) add_chunk_rows(const __grid_constant__ AddRows params) {
  constexpr int kLoadsInFlight = 8;
  const int column = kVecSize * static_cast<int>(blockIdx.y * kThreads + threadIdx.x);
  if (column >= params.width) return;
  const std::int64_t first = kRowChunk * blockIdx.x;
  const std::int64_t end = first + kRowChunk < params.count ? first + kRowChunk : params.count;
  Floats sum{};
  std::int64_t begin = first;
  for (std::int64_t i = first; i < end; i += kLoadsInFlight) {
    Floats x[kLoadsInFlight];
#pragma unroll
    for (int n = 0; n < kLoadsInFlight; ++n) {
      if (i + n >= end) continue;
      x[n] = load_vec(static_cast<const T*>(params.values) + params.order[i + n] * params.width +
                      column);
    }
#pragma unroll
    for (int n = 0; n < kLoadsInFlight; ++n) {
      if (i + n >= end) continue;
      if (params.rows[i + n] != params.rows[begin]) {
        add_run(params, begin, i + n, column, sum);
        begin = i + n;
        sum = Floats{};
      }
#pragma unroll
      for (int e = 0; e < kVecSize; ++e) sum[e] += x[n][e];
    }
  }
  add_run(params, begin, end, column, sum);
}

/// A block completes the run that begins in its chunk and continues in the next, if there is one.
__global__ void __launch_bounds__(kThreads) add_open_runs(const __grid_constant__ AddRows params) {
  const int column = kVecSize * static_cast<int>(blockIdx.y * kThreads + threadIdx.x);
  const std::int64_t end = kRowChunk * (blockIdx.x + 1);
  if (column >= params.width || end >= params.count) return;
  const std::int32_t row = params.rows[end];
  const std::int64_t first = end - kRowChunk;
  if (params.rows[end - 1] != row || row == params.skipped) return;
  if (params.rows[first] == row && first > 0 && params.rows[first - 1] == row)
    return;                // began before
  std::int64_t low = end;  // binary search for the end: rows[low] is `row`, rows[high] is not
  std::int64_t high = params.count;
  while (high - low > 1) {
    const std::int64_t middle = low + (high - low) / 2;
    (params.rows[middle] == row ? low : high) = middle;
  }
  Floats sum = load_vec(params.open + (2 * std::int64_t{blockIdx.x} + 1) * params.width + column);
#pragma unroll 8
  for (std::int64_t chunk = blockIdx.x + 1; chunk <= low / kRowChunk; ++chunk) {
    const Floats x = load_vec(params.open + 2 * chunk * params.width + column);
#pragma unroll
    for (int e = 0; e < kVecSize; ++e) sum[e] += x[e];
  }
  float* to = params.table + std::int64_t{row} * params.width + column;
  Floats all = load_vec(to);
#pragma unroll
  for (int e = 0; e < kVecSize; ++e) all[e] += sum[e];
  all.store(to);
}

// ---- Norms --------------------------------------------------------------------------------------

/// Sums of squares, one block per chunk.
__global__ void __launch_bounds__(kThreads)
    square_sums(const float* flat, const std::int64_t* chunks, float* sums) {
  const std::int64_t end = chunks[2 * blockIdx.x + 1];
  float sum = 0.0F;
  std::int64_t i = chunks[2 * blockIdx.x] + kVecSize * threadIdx.x;
#pragma unroll 8
  for (; i + kVecSize <= end; i += kVecSize * kThreads) {
    const Floats x = load_vec(flat + i);
#pragma unroll
    for (int e = 0; e < kVecSize; ++e) sum += x[e] * x[e];
  }
  for (; i < end; ++i) sum += flat[i] * flat[i];  // the tail, by one thread
  sum = block_sum<kThreads>(sum);
  if (threadIdx.x == 0) sums[blockIdx.x] = sum;
}

/// One block per segment.
__global__ void __launch_bounds__(kThreads)
    segment_norms(const float* sums, const std::int64_t* first_chunks, float* norms) {
  double sum = 0.0;
  for (std::int64_t c = first_chunks[blockIdx.x] + threadIdx.x; c < first_chunks[blockIdx.x + 1];
       c += kThreads) {
    sum += sums[c];
  }
  sum = block_sum<kThreads>(sum);
  if (threadIdx.x == 0) norms[blockIdx.x] = static_cast<float>(sqrt(sum));
}

/// One block: see GradNormState.
__global__ void __launch_bounds__(kThreads)
    clip_and_check(const __grid_constant__ GradNorm params) {
  __shared__ bool is_first_nonfinite;
  const auto labels = static_cast<float>(fmax(params.sums[1], 1.0));
  double squares = 0.0;
  for (std::int64_t s = threadIdx.x; s < params.segments; s += kThreads) {
    params.norms[s] /= labels;
    squares += static_cast<double>(params.norms[s]) * params.norms[s];
  }
  squares = block_sum<kThreads>(squares);
  if (threadIdx.x == 0) {
    const auto norm = static_cast<float>(sqrt(squares));
    is_first_nonfinite = !(isfinite(norm) && isfinite(params.sums[0])) && *params.nonfinite == 0.0F;
    *params.norm = norm;
    *params.divisor =
        params.clip_norm > 0.0F ? labels * fmaxf(norm / params.clip_norm, 1.0F) : labels;
    if (is_first_nonfinite) {
      *params.nonfinite = 1.0F;
      *params.nonfinite_step = params.step_on_device != nullptr ? *params.step_on_device
                                                                : static_cast<double>(params.step);
    }
  }
  __syncthreads();
  if (!is_first_nonfinite) return;
  for (std::int64_t s = threadIdx.x; s < params.segments; s += kThreads) {
    params.nonfinite_norms[s] = params.norms[s];
  }
}

// ---- AdamW --------------------------------------------------------------------------------------

__device__ double learning_rate(const AdamW& params) {
  return params.rate != nullptr ? params.learning_rate * *params.rate : params.learning_rate;
}

/// Counts the step and computes the bias corrections, in double precision, once for all threads.
__global__ void count_step(const __grid_constant__ AdamW params) {
  const float steps = *params.steps + (*params.skip == 0.0F ? 1.0F : 0.0F);
  *params.steps = steps;
  const auto exponent = static_cast<double>(steps);
  params.corrections[0] =
      static_cast<float>(learning_rate(params) / (1.0 - pow(params.beta1, exponent)));
  params.corrections[1] = static_cast<float>(1.0 / sqrt(1.0 - pow(params.beta2, exponent)));
}

template <typename T>
__device__ void store_vec(T* to, const Floats& x) {
  Packed<T, kVecSize> pack;
#pragma unroll
  for (int i = 0; i < kVecSize; ++i) pack[i] = from_accum<T>(x[i]);
  pack.store(to);
}

/// Elements i to i + 3.
template <typename T>
__device__ void adamw_vec(const AdamW& params, std::int64_t i) {
  Floats p = load_vec(params.values + i);
  if (*params.skip == 0.0F) {
    const Floats g = load_vec(params.gradients + i);
    Floats m = load_vec(params.first + i);
    Floats v = load_vec(params.second + i);
    const float divisor = *params.divisor;
    const float step_size = params.corrections[0];
    const float inv_sqrt_correction2 = params.corrections[1];
    const float decay = i < params.num_decaying
                            ? static_cast<float>(learning_rate(params)) * params.weight_decay
                            : 0.0F;
    const auto beta1 = static_cast<float>(params.beta1);
    const auto beta2 = static_cast<float>(params.beta2);
    const auto one_minus_beta1 = static_cast<float>(1.0 - params.beta1);
    const auto one_minus_beta2 = static_cast<float>(1.0 - params.beta2);
#pragma unroll
    for (int e = 0; e < kVecSize; ++e) {
      const float d = g[e] / divisor;
      m[e] = beta1 * m[e] + one_minus_beta1 * d;
      v[e] = beta2 * v[e] + one_minus_beta2 * d * d;
      p[e] -= decay * p[e];
      p[e] -= step_size * m[e] / (sqrtf(v[e]) * inv_sqrt_correction2 + params.epsilon);
    }
    p.store(params.values + i);
    m.store(params.first + i);
    v.store(params.second + i);
  }
  if (params.narrow != nullptr) store_vec(static_cast<T*>(params.narrow) + i, p);
}

template <typename T>
__global__ void __launch_bounds__(kThreads) adamw(const __grid_constant__ AdamW params) {
  const std::int64_t i = kVecSize * (std::int64_t{blockIdx.x} * kThreads + threadIdx.x);
  if (i < params.size) adamw_vec<T>(params, i);
}

}  // namespace

int launch_gather_segments(const GatherSegments& params, std::uint32_t blocks, void* stream) {
  gather_segments<<<blocks, kThreads, 0, static_cast<cudaStream_t>(stream)>>>(params);
  return static_cast<int>(cudaGetLastError());
}

int launch_add_rows(const AddRows& params, ElementType type, void* stream) {
  const auto on = static_cast<cudaStream_t>(stream);
  const dim3 grid(static_cast<unsigned>(row_chunks(params.count)),
                  static_cast<unsigned>((params.width / kVecSize + kThreads - 1) / kThreads));
  const int error = dispatch(
      type, [&](auto zero) { add_chunk_rows<decltype(zero)><<<grid, kThreads, 0, on>>>(params); });
  if (error != 0) return error;
  add_open_runs<<<grid, kThreads, 0, on>>>(params);
  return static_cast<int>(cudaGetLastError());
}

int launch_square_sums(const float* flat, const std::int64_t* chunks, float* sums,
                       std::int64_t num_chunks, void* stream) {
  square_sums<<<static_cast<unsigned>(num_chunks), kThreads, 0,
                static_cast<cudaStream_t>(stream)>>>(flat, chunks, sums);
  return static_cast<int>(cudaGetLastError());
}

int launch_segment_norms(const float* sums, const std::int64_t* first_chunks, float* norms,
                         std::int64_t num_segments, void* stream) {
  segment_norms<<<static_cast<unsigned>(num_segments), kThreads, 0,
                  static_cast<cudaStream_t>(stream)>>>(sums, first_chunks, norms);
  return static_cast<int>(cudaGetLastError());
}

int launch_clip_and_check(const GradNorm& params, void* stream) {
  clip_and_check<<<1, kThreads, 0, static_cast<cudaStream_t>(stream)>>>(params);
  return static_cast<int>(cudaGetLastError());
}

int launch_adamw(const AdamW& params, void* stream) {
  const auto on = static_cast<cudaStream_t>(stream);
  count_step<<<1, 1, 0, on>>>(params);
  const auto blocks = static_cast<unsigned>((params.size / kVecSize + kThreads - 1) / kThreads);
  if (params.narrow_type == ElementType::kFloat16) {
    adamw<__half><<<blocks, kThreads, 0, on>>>(params);
  } else {
    adamw<__nv_bfloat16><<<blocks, kThreads, 0, on>>>(params);
  }
  return static_cast<int>(cudaGetLastError());
}

}  // namespace rotary::transformer::cuda
