// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// What is done to elements one by one, and sums over rows and classes. Each kernel reads its
// tensors once and writes its results once, and computes in float. Sums are made in a fixed order.

#include <cmath>

#include "layers/eights.cuh"
#include "layers/gelu.cuh"

namespace rotary::torch::cuda {
namespace {

constexpr unsigned kAllLanes = 0xffffffffU;

// ---- Bias and GELU ------------------------------------------------------------------------------

/// A thread has eight columns, and the rows of its block.
struct Tile {
  std::int64_t column;
  std::int64_t first;
  std::int64_t end;
};
__device__ Tile tile_of(std::int64_t rows) {
  const std::int64_t each = (rows + gridDim.y - 1) / gridDim.y;
  const std::int64_t first = each * blockIdx.y;
  return {kDrawn * (std::int64_t{blockIdx.x} * kThreads + threadIdx.x), first,
          first + each < rows ? first + each : rows};
}

/// Rows whose loads are under way together.
template <typename T>
constexpr int kBatch = sizeof(T) == 2 ? 4 : 2;

/// Calls use(row, x) for the rows of a tile, each with its eight elements of every tensor.
template <typename T, int kCount, typename Use>
__device__ void for_rows(const Tile& tile, const T* const (&tensors)[kCount], int width,
                         const Use& use) {
  for (std::int64_t row = tile.first; row < tile.end; row += kBatch<T>) {
    Raw<T> raw[kBatch<T>][kCount];
#pragma unroll
    for (int r = 0; r < kBatch<T>; ++r) {
      if (row + r >= tile.end) continue;
#pragma unroll
      for (int t = 0; t < kCount; ++t) {
        raw[r][t] = load_raw(tensors[t] + (row + r) * width + tile.column);
      }
    }
#pragma unroll
    for (int r = 0; r < kBatch<T>; ++r) {
      if (row + r < tile.end) use(row + r, raw[r]);
    }
  }
}

/// A thread has eight columns of two rows.
constexpr int kGeluRows = 2;
template <typename T>
__global__ void __launch_bounds__(kThreads)
    bias_gelu(const T* x, const float* bias, T* y, std::int64_t rows, int width) {
  const int column =
      kDrawn * (static_cast<int>(blockIdx.x) * kThreads + static_cast<int>(threadIdx.x));
  if (column >= width) return;
  const std::int64_t first = std::int64_t{blockIdx.y} * kGeluRows;
  const std::int64_t step = std::int64_t{gridDim.y} * kGeluRows;
  const Eight b = load_eight(bias + column);
  for (std::int64_t row = first; row < rows; row += step) {
    Raw<T> raw[kGeluRows];
#pragma unroll
    for (int r = 0; r < kGeluRows; ++r) {
      if (row + r < rows) raw[r] = load_raw(x + (row + r) * width + column);
    }
#pragma unroll
    for (int r = 0; r < kGeluRows; ++r) {
      if (row + r >= rows) continue;
      Eight v = widen_all(raw[r]);
#pragma unroll
      for (int i = 0; i < kDrawn; ++i) v.at[i] = gelu(v.at[i] + b.at[i]);
      store_eight(y + (row + r) * width + column, v);
    }
  }
}

template <typename T>
__global__ void __launch_bounds__(kThreads, kTileBlocks)
    bias_gelu_backward(const T* grad, const T* x, const float* bias, T* dx, float* partial,
                       std::int64_t rows, int width) {
  const Tile tile = tile_of(rows);
  if (tile.column >= width) return;
  const Eight b = load_eight(bias + tile.column);
  Eight sum = zeros();
  for_rows<T, 2>(tile, {x, grad}, width, [&](std::int64_t row, const Raw<T>(&raw)[2]) {
    const Eight v = widen_all(raw[0]);
    Eight d = widen_all(raw[1]);
#pragma unroll
    for (int i = 0; i < kDrawn; ++i) {
      d.at[i] *= gelu_slope(v.at[i] + b.at[i]);
      sum.at[i] += d.at[i];
    }
    store_eight(dx + row * width + tile.column, d);
  });
  store_eight(partial + std::int64_t{blockIdx.y} * width + tile.column, sum);
}

template <typename T>
__global__ void __launch_bounds__(kThreads, kTileBlocks)
    row_sums(const T* x, float* partial, std::int64_t rows, int width) {
  const Tile tile = tile_of(rows);
  if (tile.column >= width) return;
  Eight sum = zeros();
  for_rows<T, 1>(tile, {x}, width, [&](std::int64_t, const Raw<T>(&raw)[1]) {
    const Eight v = widen_all(raw[0]);
#pragma unroll
    for (int i = 0; i < kDrawn; ++i) sum.at[i] += v.at[i];
  });
  store_eight(partial + std::int64_t{blockIdx.y} * width + tile.column, sum);
}

/// A thread has 16 bytes of a row.
__global__ void copy_rows(const uint4* from, uint4* to, std::int64_t count, int each,
                          std::int64_t from_step, std::int64_t to_step) {
  const std::int64_t i = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (i >= count) return;
  const std::int64_t row = i / each;
  const std::int64_t place = i - row * each;
  to[row * to_step + place] = from[row * from_step + place];
}

/// A block has 32 columns; its 16 rows of threads have every 16th row.
constexpr int kSumRows = 16;
__global__ void column_sums(const float* partial, const __grid_constant__ SumsOut out,
                            std::int64_t rows, int columns) {
  __shared__ float parts[kSumRows][kWarp];
  const int column = static_cast<int>(blockIdx.x) * kWarp + static_cast<int>(threadIdx.x);
  float sum = 0.0F;
  if (column < columns) {
#pragma unroll 8
    for (std::int64_t row = threadIdx.y; row < rows; row += kSumRows) {
      sum += partial[row * columns + column];
    }
  }
  parts[threadIdx.y][threadIdx.x] = sum;
  __syncthreads();
  if (threadIdx.y != 0 || column >= columns) return;
  for (int i = 1; i < kSumRows; ++i) sum += parts[i][threadIdx.x];
  out.sums[column / out.width][column % out.width] = sum;
}

// ---- Cross entropy ------------------------------------------------------------------------------

constexpr int kRowThreads = 128;
constexpr int kRowLoads = 4;  // under way together, a thread

/// A sum of exponentials, as most + log(sum).
struct LogSum {
  float most = -INFINITY;
  float sum = 0.0F;

  __device__ void add(const LogSum& other) {
    const float top = fmaxf(most, other.most);
    if (top == -INFINITY) return;
    sum = sum * __expf(most - top) + other.sum * __expf(other.most - top);
    most = top;
  }
};

__device__ LogSum log_sum_of(const Eight& x) {
  LogSum all;
#pragma unroll
  for (int i = 0; i < kDrawn; ++i) all.most = fmaxf(all.most, x.at[i]);
#pragma unroll
  for (int i = 0; i < kDrawn; ++i) all.sum += __expf(x.at[i] - all.most);
  return all;
}

/// A block has a row.
template <typename T>
__global__ void __launch_bounds__(kRowThreads)
    cross_entropy(const T* logits, const std::int64_t* labels, float* losses, float* lse,
                  int classes) {
  __shared__ LogSum parts[kRowThreads / kWarp];
  const T* row = logits + std::int64_t{blockIdx.x} * classes;
  LogSum own;
  constexpr int kStep = kDrawn * kRowThreads;
  for (int c = kDrawn * static_cast<int>(threadIdx.x); c < classes; c += kRowLoads * kStep) {
    Raw<T> raw[kRowLoads];
#pragma unroll
    for (int n = 0; n < kRowLoads; ++n) {
      if (c + n * kStep < classes) raw[n] = load_raw(row + c + n * kStep);
    }
#pragma unroll
    for (int n = 0; n < kRowLoads; ++n) {
      if (c + n * kStep < classes) own.add(log_sum_of(widen_all(raw[n])));
    }
  }
#pragma unroll
  for (int step = kWarp / 2; step > 0; step /= 2) {
    own.add(
        {__shfl_xor_sync(kAllLanes, own.most, step), __shfl_xor_sync(kAllLanes, own.sum, step)});
  }
  if (threadIdx.x % kWarp == 0) parts[threadIdx.x / kWarp] = own;
  __syncthreads();
  if (threadIdx.x != 0) return;
  for (int i = 1; i < kRowThreads / kWarp; ++i) own.add(parts[i]);
  const float total = own.most + logf(own.sum);
  const std::int64_t label = labels[blockIdx.x];
  lse[blockIdx.x] = total;
  losses[blockIdx.x] = label >= 0 && label < classes ? total - widen(row[label]) : NAN;
}

/// What a row has besides its logits.
struct RowLoss {
  float grad;
  float lse;
  std::int64_t label;
};

/// (softmax - 1 at the label) grad, and its sums over rows.
template <typename T>
__global__ void __launch_bounds__(kThreads, kTileBlocks)
    cross_entropy_backward(const __grid_constant__ CrossEntropyBackward job) {
  const Tile tile = tile_of(job.rows);
  const int classes = job.classes;
  if (tile.column >= classes) return;
  const T* logits = static_cast<const T*>(job.logits) + tile.column;
  T* dlogits = static_cast<T*>(job.dlogits) + tile.column;
  Eight sum = zeros();
  for (std::int64_t first = tile.first; first < tile.end; first += kBatch<T>) {
    Raw<T> raw[kBatch<T>];
    RowLoss rows[kBatch<T>];
#pragma unroll
    for (int r = 0; r < kBatch<T>; ++r) {
      const std::int64_t row = first + r;
      if (row >= tile.end) continue;
      raw[r] = load_raw(logits + row * classes);
      rows[r] = {job.grad[row], job.lse[row], job.labels[row] - tile.column};
    }
#pragma unroll
    for (int r = 0; r < kBatch<T>; ++r) {
      if (first + r >= tile.end) continue;
      Eight x = widen_all(raw[r]);
#pragma unroll
      for (int i = 0; i < kDrawn; ++i) {
        const float wanted = rows[r].label == i ? 1.0F : 0.0F;
        x.at[i] = rows[r].grad * (__expf(x.at[i] - rows[r].lse) - wanted);
        sum.at[i] += x.at[i];
      }
      store_eight(dlogits + (first + r) * classes, x);
    }
  }
  store_eight(job.partial + std::int64_t{blockIdx.y} * classes + tile.column, sum);
}

// ---- Launching ----------------------------------------------------------------------------------

unsigned column_blocks(int width) { return static_cast<unsigned>(tile_columns(width)); }

}  // namespace

int launch_bias_gelu(const void* x, const float* bias, void* y, std::int64_t rows, int width,
                     LayerType type, void* stream) {
  constexpr std::int64_t kMostBlocks = 65535;
  const std::int64_t wanted = (rows + kGeluRows - 1) / kGeluRows;
  const dim3 grid(column_blocks(width),
                  static_cast<unsigned>(wanted < kMostBlocks ? wanted : kMostBlocks));
  return by_type(type, [&](auto zero) {
    using T = decltype(zero);
    bias_gelu<T><<<grid, kThreads, 0, static_cast<cudaStream_t>(stream)>>>(
        static_cast<const T*>(x), bias, static_cast<T*>(y), rows, width);
  });
}

int launch_bias_gelu_backward(const void* grad, const void* x, const float* bias, void* dx,
                              float* partial, std::int64_t rows, int width, LayerType type,
                              void* stream) {
  const dim3 grid(column_blocks(width), static_cast<unsigned>(tile_rows(rows, width)));
  return by_type(type, [&](auto zero) {
    using T = decltype(zero);
    bias_gelu_backward<T><<<grid, kThreads, 0, static_cast<cudaStream_t>(stream)>>>(
        static_cast<const T*>(grad), static_cast<const T*>(x), bias, static_cast<T*>(dx), partial,
        rows, width);
  });
}

int launch_row_sums(const void* x, float* partial, std::int64_t rows, int width, LayerType type,
                    void* stream) {
  const dim3 grid(column_blocks(width), static_cast<unsigned>(tile_rows(rows, width)));
  return by_type(type, [&](auto zero) {
    using T = decltype(zero);
    row_sums<T><<<grid, kThreads, 0, static_cast<cudaStream_t>(stream)>>>(static_cast<const T*>(x),
                                                                          partial, rows, width);
  });
}

int launch_column_sums(const float* partial, const SumsOut& out, std::int64_t rows, int columns,
                       void* stream) {
  const auto blocks = static_cast<unsigned>((columns + kWarp - 1) / kWarp);
  column_sums<<<blocks, dim3(kWarp, kSumRows), 0, static_cast<cudaStream_t>(stream)>>>(
      partial, out, rows, columns);
  return static_cast<int>(cudaGetLastError());
}

int launch_copy_rows(const void* from, void* to, std::int64_t rows, std::int64_t bytes,
                     std::int64_t from_step, std::int64_t to_step, void* stream) {
  constexpr std::int64_t kBytes = sizeof(uint4);
  constexpr int kCopyThreads = 256;
  const std::int64_t count = rows * (bytes / kBytes);
  copy_rows<<<static_cast<unsigned>((count + kCopyThreads - 1) / kCopyThreads), kCopyThreads, 0,
              static_cast<cudaStream_t>(stream)>>>(
      static_cast<const uint4*>(from), static_cast<uint4*>(to), count,
      static_cast<int>(bytes / kBytes), from_step / kBytes, to_step / kBytes);
  return static_cast<int>(cudaGetLastError());
}

int launch_cross_entropy(const void* logits, const std::int64_t* labels, float* losses, float* lse,
                         std::int64_t rows, int classes, LayerType type, void* stream) {
  return by_type(type, [&](auto zero) {
    using T = decltype(zero);
    cross_entropy<T>
        <<<static_cast<unsigned>(rows), kRowThreads, 0, static_cast<cudaStream_t>(stream)>>>(
            static_cast<const T*>(logits), labels, losses, lse, classes);
  });
}

int launch_cross_entropy_backward(const CrossEntropyBackward& job, LayerType type, void* stream) {
  const dim3 grid(column_blocks(job.classes),
                  static_cast<unsigned>(tile_rows(job.rows, job.classes)));
  return by_type(type, [&](auto zero) {
    using T = decltype(zero);
    cross_entropy_backward<T><<<grid, kThreads, 0, static_cast<cudaStream_t>(stream)>>>(job);
  });
}

}  // namespace rotary::torch::cuda
