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

// ---- Rows -------------------------------------------------------------------------------------

/// The sum of a run of equal rows within a chunk. Where the run goes on beyond the chunk, it stays
/// open: [0] is one that began before, [1] one that begins here.
__device__ void add_run(const AddRows& job, std::int64_t first, std::int64_t end, int column,
                        const Floats& sum) {
  const std::int32_t row = job.rows[first];
  const std::int64_t chunk = first / kRowChunk;
  const bool before = first == chunk * kRowChunk && first > 0 && job.rows[first - 1] == row;
  const bool behind = end < job.count && job.rows[end] == row;
  if (before || behind) {
    store_pack(job.open + (2 * chunk + (before ? 0 : 1)) * job.width + column, sum);
  } else if (row != job.skipped) {
    float* to = job.table + std::int64_t{row} * job.width + column;
    Floats all = load_four(to);
#pragma unroll
    for (int e = 0; e < kFour; ++e) all.at[e] += sum.at[e];
    store_pack(to, all);
  }
}

/// A block has a chunk of rows, a thread four columns.
template <typename T>
__global__ void __launch_bounds__(kThreads) add_rows_of_chunk(const __grid_constant__ AddRows job) {
  constexpr int kAhead = 8;  // loads that are under way together
  const int column = kFour * static_cast<int>(blockIdx.y * kThreads + threadIdx.x);
  if (column >= job.width) return;
  const std::int64_t first = kRowChunk * blockIdx.x;
  const std::int64_t end = first + kRowChunk < job.count ? first + kRowChunk : job.count;
  Floats sum{};
  std::int64_t begin = first;
  for (std::int64_t i = first; i < end; i += kAhead) {
    Floats x[kAhead];
#pragma unroll
    for (int n = 0; n < kAhead; ++n) {
      if (i + n >= end) continue;
      x[n] = load_four(static_cast<const T*>(job.values) + job.order[i + n] * job.width + column);
    }
#pragma unroll
    for (int n = 0; n < kAhead; ++n) {
      if (i + n >= end) continue;
      if (job.rows[i + n] != job.rows[begin]) {
        add_run(job, begin, i + n, column, sum);
        begin = i + n;
        sum = Floats{};
      }
#pragma unroll
      for (int e = 0; e < kFour; ++e) sum.at[e] += x[n].at[e];
    }
  }
  add_run(job, begin, end, column, sum);
}

/// A block has the run that begins in its chunk and goes on in the next, if there is one.
__global__ void __launch_bounds__(kThreads) add_open_rows(const __grid_constant__ AddRows job) {
  const int column = kFour * static_cast<int>(blockIdx.y * kThreads + threadIdx.x);
  const std::int64_t end = kRowChunk * (blockIdx.x + 1);
  if (column >= job.width || end >= job.count) return;
  const std::int32_t row = job.rows[end];
  const std::int64_t first = end - kRowChunk;
  if (job.rows[end - 1] != row || row == job.skipped) return;
  if (job.rows[first] == row && first > 0 && job.rows[first - 1] == row) return;  // began before
  std::int64_t low = end;  // job.rows[low] is `row`, job.rows[high] is not
  std::int64_t high = job.count;
  while (high - low > 1) {
    const std::int64_t middle = low + (high - low) / 2;
    (job.rows[middle] == row ? low : high) = middle;
  }
  Floats sum = load_four(job.open + (2 * std::int64_t{blockIdx.x} + 1) * job.width + column);
#pragma unroll 8
  for (std::int64_t chunk = blockIdx.x + 1; chunk <= low / kRowChunk; ++chunk) {
    const Floats x = load_four(job.open + 2 * chunk * job.width + column);
#pragma unroll
    for (int e = 0; e < kFour; ++e) sum.at[e] += x.at[e];
  }
  float* to = job.table + std::int64_t{row} * job.width + column;
  Floats all = load_four(to);
#pragma unroll
  for (int e = 0; e < kFour; ++e) all.at[e] += sum.at[e];
  store_pack(to, all);
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

/// One block.
__global__ void __launch_bounds__(kThreads) judge(const __grid_constant__ Verdict job) {
  __shared__ bool is_first;
  const auto labels = static_cast<float>(fmax(job.sums[1], 1.0));
  double squares = 0.0;
  for (std::int64_t p = threadIdx.x; p < job.parts; p += kThreads) {
    job.norms[p] /= labels;
    squares += static_cast<double>(job.norms[p]) * job.norms[p];
  }
  squares = block_sum(squares);
  if (threadIdx.x == 0) {
    const auto norm = static_cast<float>(sqrt(squares));
    is_first = !(isfinite(norm) && isfinite(job.sums[0])) && *job.bad == 0.0F;
    *job.norm = norm;
    *job.divisor = job.clip_norm > 0.0F ? labels * fmaxf(norm / job.clip_norm, 1.0F) : labels;
    if (is_first) {
      *job.bad = 1.0F;
      *job.bad_step = static_cast<double>(job.step);
    }
  }
  __syncthreads();
  if (!is_first) return;
  for (std::int64_t p = threadIdx.x; p < job.parts; p += kThreads) job.bad_norms[p] = job.norms[p];
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

int launch_add_rows(const AddRows& job, PieceType type, void* stream) {
  const auto on = static_cast<cudaStream_t>(stream);
  const dim3 grid(static_cast<unsigned>(row_chunks(job.count)),
                  static_cast<unsigned>((job.width / kFour + kThreads - 1) / kThreads));
  switch (type) {
    case PieceType::kFloat:
      add_rows_of_chunk<float><<<grid, kThreads, 0, on>>>(job);
      break;
    case PieceType::kBFloat16:
      add_rows_of_chunk<__nv_bfloat16><<<grid, kThreads, 0, on>>>(job);
      break;
    case PieceType::kFloat16:
      add_rows_of_chunk<__half><<<grid, kThreads, 0, on>>>(job);
      break;
  }
  add_open_rows<<<grid, kThreads, 0, on>>>(job);
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

int launch_judge(const Verdict& job, void* stream) {
  judge<<<1, kThreads, 0, static_cast<cudaStream_t>(stream)>>>(job);
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
