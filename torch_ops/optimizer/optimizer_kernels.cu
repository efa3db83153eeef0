// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// Gradients into one tensor, their norms, AdamW: each reads and writes its tensors once.

#include <cuda_runtime.h>

#include "linear_attention/numbers.cuh"
#include "optimizer/optimizer_cuda.h"

namespace rotary::torch::cuda {
namespace {

constexpr int kThreads = 256;
constexpr int kFour = 4;

using Floats = Pack<float, kFour>;

template <typename T>
__device__ Floats load_four(const T* from) {
  const auto raw = load_pack<kFour>(from);
  Floats x;
#pragma unroll
  for (int i = 0; i < kFour; ++i) x.at[i] = widen(raw.at[i]);
  return x;
}

// ---- Gathering ----------------------------------------------------------------------------------

/// A thread has every kThreads-th four of the block's elements; loads go out together.
template <typename T>
__device__ void gather(const T* from, float* to, std::int64_t count, bool adds) {
  constexpr int kEach = kPieceBlock / (kThreads * kFour);
  Floats x[kEach];
#pragma unroll
  for (int n = 0; n < kEach; ++n) {
    const std::int64_t i = kFour * (std::int64_t{n} * kThreads + threadIdx.x);
    if (i + kFour <= count) x[n] = load_four(from + i);
  }
#pragma unroll
  for (int n = 0; n < kEach; ++n) {
    const std::int64_t i = kFour * (std::int64_t{n} * kThreads + threadIdx.x);
    if (i + kFour <= count) {
      if (adds) {
        const Floats y = load_four(to + i);
#pragma unroll
        for (int e = 0; e < kFour; ++e) x[n].at[e] += y.at[e];
      }
      store_pack(to + i, x[n]);
    } else {
      for (std::int64_t e = i; e < count; ++e) to[e] = widen(from[e]) + (adds ? to[e] : 0.0F);
    }
  }
}

__global__ void __launch_bounds__(kThreads) gather_pieces(const __grid_constant__ Pieces job) {
  int p = 0;
  while (p + 1 < job.pieces && job.first_block[p + 1] <= blockIdx.x) ++p;
  const std::int64_t first = std::int64_t{blockIdx.x - job.first_block[p]} * kPieceBlock;
  const std::int64_t left = job.count[p] - first;
  const std::int64_t count = left < kPieceBlock ? left : kPieceBlock;
  float* to = job.to[p] + first;
  switch (job.type[p]) {
    case PieceType::kFloat:
      return gather(static_cast<const float*>(job.from[p]) + first, to, count, job.adds);
    case PieceType::kBFloat16:
      return gather(static_cast<const __nv_bfloat16*>(job.from[p]) + first, to, count, job.adds);
    case PieceType::kFloat16:
      return gather(static_cast<const __half*>(job.from[p]) + first, to, count, job.adds);
  }
}

// ---- Norms --------------------------------------------------------------------------------------

/// The sum over a block, in its first thread.
template <typename T>
__device__ T block_sum(T x) {
  __shared__ T parts[kThreads / kWarp];
  x = warp_sum(x);
  if (threadIdx.x % kWarp == 0) parts[threadIdx.x / kWarp] = x;
  __syncthreads();
  if (threadIdx.x == 0) {
    for (int i = 1; i < kThreads / kWarp; ++i) x += parts[i];
  }
  return x;
}

/// A block has a chunk.
__global__ void __launch_bounds__(kThreads)
    square_sums(const float* flat, const std::int64_t* chunks, float* sums) {
  const std::int64_t end = chunks[2 * blockIdx.x + 1];
  float sum = 0.0F;
  std::int64_t i = chunks[2 * blockIdx.x] + kFour * threadIdx.x;
#pragma unroll 8
  for (; i + kFour <= end; i += kFour * kThreads) {
    const Floats x = load_four(flat + i);
#pragma unroll
    for (int e = 0; e < kFour; ++e) sum += x.at[e] * x.at[e];
  }
  for (; i < end; ++i) sum += flat[i] * flat[i];  // what is left is one thread's
  sum = block_sum(sum);
  if (threadIdx.x == 0) sums[blockIdx.x] = sum;
}

/// A block has a part.
__global__ void __launch_bounds__(kThreads)
    norms_of_parts(const float* sums, const std::int64_t* first_chunks, float* norms) {
  double sum = 0.0;
  for (std::int64_t c = first_chunks[blockIdx.x] + threadIdx.x; c < first_chunks[blockIdx.x + 1];
       c += kThreads) {
    sum += sums[c];
  }
  sum = block_sum(sum);
  if (threadIdx.x == 0) norms[blockIdx.x] = static_cast<float>(sqrt(sum));
}

// ---- AdamW --------------------------------------------------------------------------------------

__global__ void count_step(const __grid_constant__ AdamWJob job) {
  const float steps = *job.steps + (*job.skip == 0.0F ? 1.0F : 0.0F);
  *job.steps = steps;
  const auto exponent = static_cast<double>(steps);
  job.factors[0] = static_cast<float>(job.learning_rate / (1.0 - pow(job.beta1, exponent)));
  job.factors[1] = static_cast<float>(1.0 / sqrt(1.0 - pow(job.beta2, exponent)));
}

template <typename T>
__device__ void store_four(T* to, const Floats& x) {
  Pack<T, kFour> pack;
#pragma unroll
  for (int i = 0; i < kFour; ++i) store(&pack.at[i], x.at[i]);
  store_pack(to, pack);
}

/// The four elements from i on.
template <typename T>
__device__ void adamw_four(const AdamWJob& job, std::int64_t i) {
  Floats p = load_four(job.values + i);
  if (*job.skip == 0.0F) {
    const Floats g = load_four(job.gradients + i);
    Floats m = load_four(job.first + i);
    Floats v = load_four(job.second + i);
    const float divisor = *job.divisor;
    const float rate = job.factors[0];
    const float root = job.factors[1];
    const float decay =
        i < job.num_decaying ? static_cast<float>(job.learning_rate) * job.weight_decay : 0.0F;
    const auto beta1 = static_cast<float>(job.beta1);
    const auto beta2 = static_cast<float>(job.beta2);
    const auto rest1 = static_cast<float>(1.0 - job.beta1);
    const auto rest2 = static_cast<float>(1.0 - job.beta2);
#pragma unroll
    for (int e = 0; e < kFour; ++e) {
      const float d = g.at[e] / divisor;
      m.at[e] = beta1 * m.at[e] + rest1 * d;
      v.at[e] = beta2 * v.at[e] + rest2 * d * d;
      p.at[e] -= decay * p.at[e];
      p.at[e] -= rate * m.at[e] / (sqrtf(v.at[e]) * root + job.epsilon);
    }
    store_pack(job.values + i, p);
    store_pack(job.first + i, m);
    store_pack(job.second + i, v);
  }
  if (job.narrow != nullptr) store_four(static_cast<T*>(job.narrow) + i, p);
}

template <typename T>
__global__ void __launch_bounds__(kThreads) adamw(const __grid_constant__ AdamWJob job) {
  const std::int64_t i = kFour * (std::int64_t{blockIdx.x} * kThreads + threadIdx.x);
  if (i < job.size) adamw_four<T>(job, i);
}

}  // namespace

int launch_gather(const Pieces& job, std::uint32_t blocks, void* stream) {
  gather_pieces<<<blocks, kThreads, 0, static_cast<cudaStream_t>(stream)>>>(job);
  return static_cast<int>(cudaGetLastError());
}

int launch_square_sums(const float* flat, const std::int64_t* chunks, float* sums,
                       std::int64_t num_chunks, void* stream) {
  square_sums<<<static_cast<unsigned>(num_chunks), kThreads, 0,
                static_cast<cudaStream_t>(stream)>>>(flat, chunks, sums);
  return static_cast<int>(cudaGetLastError());
}

int launch_norms(const float* sums, const std::int64_t* first_chunks, float* norms,
                 std::int64_t num_parts, void* stream) {
  norms_of_parts<<<static_cast<unsigned>(num_parts), kThreads, 0,
                   static_cast<cudaStream_t>(stream)>>>(sums, first_chunks, norms);
  return static_cast<int>(cudaGetLastError());
}

int launch_adamw(const AdamWJob& job, void* stream) {
  const auto on = static_cast<cudaStream_t>(stream);
  count_step<<<1, 1, 0, on>>>(job);
  const auto blocks = static_cast<unsigned>((job.size / kFour + kThreads - 1) / kThreads);
  if (job.narrow_type == PieceType::kFloat16) {
    adamw<__half><<<blocks, kThreads, 0, on>>>(job);
  } else {
    adamw<__nv_bfloat16><<<blocks, kThreads, 0, on>>>(job);
  }
  return static_cast<int>(cudaGetLastError());
}

}  // namespace rotary::torch::cuda
