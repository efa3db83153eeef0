// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// Bias and GELU, sums over rows, and cross entropy. Each kernel reads and writes its tensors once
// and computes in float. Sums are made in a fixed order.

#include <cmath>

#include "transformer/kernels/math.cuh"
#include "transformer/layers/vec.cuh"

namespace rotary::transformer::cuda {
namespace {

// ---- Bias and GELU ------------------------------------------------------------------------------

/// Tile of a thread: eight columns of the rows of its block.
struct Tile {
  std::int64_t column;
  std::int64_t first;  // row
  std::int64_t end;
};
__device__ Tile thread_tile(std::int64_t rows) {
  const std::int64_t per_block = (rows + gridDim.y - 1) / gridDim.y;
  const std::int64_t first = per_block * blockIdx.y;
  return {kVecSize * (std::int64_t{blockIdx.x} * kThreads + threadIdx.x), first,
          first + per_block < rows ? first + per_block : rows};
}

/// Rows whose loads are in flight together.
template <typename T>
constexpr int kRowsInFlight = sizeof(T) == 2 ? 4 : 2;

/// Calls use(row, vecs) for each row of a tile, with its eight elements of every tensor.
template <typename T, int kCount, typename Use>
__device__ void for_rows(const Tile& tile, const T* const (&tensors)[kCount], int width,
                         const Use& use) {
  for (std::int64_t row = tile.first; row < tile.end; row += kRowsInFlight<T>) {
    Vec<T> raw[kRowsInFlight<T>][kCount];
#pragma unroll
    for (int r = 0; r < kRowsInFlight<T>; ++r) {
      if (row + r >= tile.end) continue;
#pragma unroll
      for (int t = 0; t < kCount; ++t) {
        raw[r][t] = Vec<T>::load(tensors[t] + (row + r) * width + tile.column);
      }
    }
#pragma unroll
    for (int r = 0; r < kRowsInFlight<T>; ++r) {
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
      kVecSize * (static_cast<int>(blockIdx.x) * kThreads + static_cast<int>(threadIdx.x));
  if (column >= width) return;
  const std::int64_t first = std::int64_t{blockIdx.y} * kGeluRows;
  const std::int64_t step = std::int64_t{gridDim.y} * kGeluRows;
  const Vec<float> b = load_vec(bias + column);
  for (std::int64_t row = first; row < rows; row += step) {
    Vec<T> raw[kGeluRows];
#pragma unroll
    for (int r = 0; r < kGeluRows; ++r) {
      if (row + r < rows) raw[r] = Vec<T>::load(x + (row + r) * width + column);
    }
#pragma unroll
    for (int r = 0; r < kGeluRows; ++r) {
      if (row + r >= rows) continue;
      Vec<float> v = raw[r].to_float();
#pragma unroll
      for (int i = 0; i < kVecSize; ++i) v[i] = gelu(v[i] + b[i]);
      store_vec(y + (row + r) * width + column, v);
    }
  }
}

template <typename T>
__global__ void __launch_bounds__(kThreads, kTileBlocks)
    bias_gelu_backward(const T* grad, const T* x, const float* bias, T* dx, float* partial,
                       std::int64_t rows, int width) {
  const Tile tile = thread_tile(rows);
  if (tile.column >= width) return;
  const Vec<float> b = load_vec(bias + tile.column);
  Vec<float> sum{};
  for_rows<T, 2>(tile, {x, grad}, width, [&](std::int64_t row, const Vec<T>(&raw)[2]) {
    const Vec<float> v = raw[0].to_float();
    Vec<float> d = raw[1].to_float();
#pragma unroll
    for (int i = 0; i < kVecSize; ++i) {
      d[i] *= gelu_derivative(v[i] + b[i]);
      sum[i] += d[i];
    }
    store_vec(dx + row * width + tile.column, d);
  });
  store_vec(partial + std::int64_t{blockIdx.y} * width + tile.column, sum);
}

template <typename T>
__global__ void __launch_bounds__(kThreads, kTileBlocks)
    row_sums(const T* x, float* partial, std::int64_t rows, int width) {
  const Tile tile = thread_tile(rows);
  if (tile.column >= width) return;
  Vec<float> sum{};
  for_rows<T, 1>(tile, {x}, width, [&](std::int64_t, const Vec<T>(&raw)[1]) {
    const Vec<float> v = raw[0].to_float();
#pragma unroll
    for (int i = 0; i < kVecSize; ++i) sum[i] += v[i];
  });
  store_vec(partial + std::int64_t{blockIdx.y} * width + tile.column, sum);
}

/// A thread copies 16 bytes of a row.
__global__ void copy_rows(const uint4* from, uint4* to, std::int64_t count, int per_row,
                          std::int64_t from_stride, std::int64_t to_stride) {
  const std::int64_t i = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (i >= count) return;
  const std::int64_t row = i / per_row;
  const std::int64_t column = i - row * per_row;
  to[row * to_stride + column] = from[row * from_stride + column];
}

/// A block sums 32 columns; each of its 16 rows of threads has every 16th row.
constexpr int kSumRows = 16;
__global__ void column_sums(const float* partial, const __grid_constant__ ColumnSums out,
                            std::int64_t rows, int columns) {
  __shared__ float sums[kSumRows][kWarpSize];
  const int column = static_cast<int>(blockIdx.x) * kWarpSize + static_cast<int>(threadIdx.x);
  float sum = 0.0F;
  if (column < columns) {
#pragma unroll 8
    for (std::int64_t row = threadIdx.y; row < rows; row += kSumRows) {
      sum += partial[row * columns + column];
    }
  }
  sums[threadIdx.y][threadIdx.x] = sum;
  __syncthreads();
  if (threadIdx.y != 0 || column >= columns) return;
  for (int i = 1; i < kSumRows; ++i) sum += sums[i][threadIdx.x];
  out.sums[column / out.width][column % out.width] = sum;
}

// ---- Cross entropy ------------------------------------------------------------------------------

constexpr int kRowThreads = 128;
constexpr int kLoadsInFlight = 4;  // per thread

/// Online log-sum-exp: the running maximum, and the sum of exp(x - max). Its value is
/// max + log(sum).
struct LogSumExp {
  float max = -INFINITY;
  float sum = 0.0F;

  __device__ void add(const LogSumExp& other) {
    const float new_max = fmaxf(max, other.max);
    if (new_max == -INFINITY) return;
    sum = sum * __expf(max - new_max) + other.sum * __expf(other.max - new_max);
    max = new_max;
  }
};

__device__ LogSumExp log_sum_exp(const Vec<float>& x) {
  LogSumExp all;
#pragma unroll
  for (int i = 0; i < kVecSize; ++i) all.max = fmaxf(all.max, x[i]);
  if (all.max == -INFINITY) return all;  // all are masked; -inf - -inf would be NaN
#pragma unroll
  for (int i = 0; i < kVecSize; ++i) all.sum += __expf(x[i] - all.max);
  return all;
}

/// One block per row.
template <typename T>
__global__ void __launch_bounds__(kRowThreads)
    cross_entropy(const T* logits, const std::int64_t* labels, float* losses, float* lse,
                  int classes) {
  __shared__ LogSumExp warps[kRowThreads / kWarpSize];
  const T* row = logits + std::int64_t{blockIdx.x} * classes;
  LogSumExp own;
  constexpr int kStep = kVecSize * kRowThreads;
  for (int c = kVecSize * static_cast<int>(threadIdx.x); c < classes; c += kLoadsInFlight * kStep) {
    Vec<T> raw[kLoadsInFlight];
#pragma unroll
    for (int n = 0; n < kLoadsInFlight; ++n) {
      if (c + n * kStep < classes) raw[n] = Vec<T>::load(row + c + n * kStep);
    }
#pragma unroll
    for (int n = 0; n < kLoadsInFlight; ++n) {
      if (c + n * kStep < classes) own.add(log_sum_exp(raw[n].to_float()));
    }
  }
#pragma unroll
  for (int step = kWarpSize / 2; step > 0; step /= 2) {
    own.add({__shfl_xor_sync(kAllLanes, own.max, step), __shfl_xor_sync(kAllLanes, own.sum, step)});
  }
  if (threadIdx.x % kWarpSize == 0) warps[threadIdx.x / kWarpSize] = own;
  __syncthreads();
  if (threadIdx.x != 0) return;
  for (int i = 1; i < kRowThreads / kWarpSize; ++i) own.add(warps[i]);
  const float total = own.max + logf(own.sum);
  const std::int64_t label = labels[blockIdx.x];
  lse[blockIdx.x] = total;
  losses[blockIdx.x] = label >= 0 && label < classes ? total - to_accum(row[label]) : NAN;
}

/// Per row, besides its logits.
struct RowLoss {
  float grad;
  float lse;
  std::int64_t label;
};

/// dlogits = grad (softmax - onehot(label)), and its partial sums over rows: the gradient of the
/// bias.
template <typename T>
__global__ void __launch_bounds__(kThreads, kTileBlocks)
    cross_entropy_backward(const __grid_constant__ CrossEntropyBackward params) {
  const Tile tile = thread_tile(params.rows);
  const int classes = params.classes;
  if (tile.column >= classes) return;
  const T* logits = static_cast<const T*>(params.logits) + tile.column;
  T* dlogits = static_cast<T*>(params.dlogits) + tile.column;
  Vec<float> sum{};
  for (std::int64_t first = tile.first; first < tile.end; first += kRowsInFlight<T>) {
    Vec<T> raw[kRowsInFlight<T>];
    RowLoss rows[kRowsInFlight<T>];
#pragma unroll
    for (int r = 0; r < kRowsInFlight<T>; ++r) {
      const std::int64_t row = first + r;
      if (row >= tile.end) continue;
      raw[r] = Vec<T>::load(logits + row * classes);
      rows[r] = {params.grad[row], params.lse[row], params.labels[row] - tile.column};
    }
#pragma unroll
    for (int r = 0; r < kRowsInFlight<T>; ++r) {
      if (first + r >= tile.end) continue;
      Vec<float> x = raw[r].to_float();
#pragma unroll
      for (int i = 0; i < kVecSize; ++i) {
        const float onehot = rows[r].label == i ? 1.0F : 0.0F;
        x[i] = rows[r].grad * (__expf(x[i] - rows[r].lse) - onehot);
        sum[i] += x[i];
      }
      store_vec(dlogits + (first + r) * classes, x);
    }
  }
  store_vec(params.partial + std::int64_t{blockIdx.y} * classes + tile.column, sum);
}

// ---- Launchers ----------------------------------------------------------------------------------

unsigned column_blocks(int width) { return static_cast<unsigned>(column_tiles(width)); }

}  // namespace

int launch_bias_gelu(const void* x, const float* bias, void* y, std::int64_t rows, int width,
                     ElementType type, void* stream) {
  constexpr std::int64_t kMaxBlocks = 65535;
  const std::int64_t wanted = (rows + kGeluRows - 1) / kGeluRows;
  const dim3 grid(column_blocks(width),
                  static_cast<unsigned>(wanted < kMaxBlocks ? wanted : kMaxBlocks));
  return dispatch(type, [&](auto zero) {
    using T = decltype(zero);
    bias_gelu<T><<<grid, kThreads, 0, static_cast<cudaStream_t>(stream)>>>(
        static_cast<const T*>(x), bias, static_cast<T*>(y), rows, width);
  });
}

int launch_bias_gelu_backward(const void* grad, const void* x, const float* bias, void* dx,
                              float* partial, std::int64_t rows, int width, ElementType type,
                              void* stream) {
  const dim3 grid(column_blocks(width), static_cast<unsigned>(row_tiles(rows, width)));
  return dispatch(type, [&](auto zero) {
    using T = decltype(zero);
    bias_gelu_backward<T><<<grid, kThreads, 0, static_cast<cudaStream_t>(stream)>>>(
        static_cast<const T*>(grad), static_cast<const T*>(x), bias, static_cast<T*>(dx), partial,
        rows, width);
  });
}

int launch_row_sums(const void* x, float* partial, std::int64_t rows, int width, ElementType type,
                    void* stream) {
  const dim3 grid(column_blocks(width), static_cast<unsigned>(row_tiles(rows, width)));
  return dispatch(type, [&](auto zero) {
    using T = decltype(zero);
    row_sums<T><<<grid, kThreads, 0, static_cast<cudaStream_t>(stream)>>>(static_cast<const T*>(x),
                                                                          partial, rows, width);
  });
}

int launch_column_sums(const float* partial, const ColumnSums& out, std::int64_t rows, int columns,
                       void* stream) {
  const auto blocks = static_cast<unsigned>((columns + kWarpSize - 1) / kWarpSize);
  column_sums<<<blocks, dim3(kWarpSize, kSumRows), 0, static_cast<cudaStream_t>(stream)>>>(
      partial, out, rows, columns);
  return static_cast<int>(cudaGetLastError());
}

int launch_copy_rows(const void* from, void* to, std::int64_t rows, std::int64_t bytes,
                     std::int64_t from_stride, std::int64_t to_stride, void* stream) {
  constexpr std::int64_t kBytes = sizeof(uint4);
  constexpr int kCopyThreads = 256;
  const std::int64_t count = rows * (bytes / kBytes);
  copy_rows<<<static_cast<unsigned>((count + kCopyThreads - 1) / kCopyThreads), kCopyThreads, 0,
              static_cast<cudaStream_t>(stream)>>>(
      static_cast<const uint4*>(from), static_cast<uint4*>(to), count,
      static_cast<int>(bytes / kBytes), from_stride / kBytes, to_stride / kBytes);
  return static_cast<int>(cudaGetLastError());
}

int launch_cross_entropy(const void* logits, const std::int64_t* labels, float* losses, float* lse,
                         std::int64_t rows, int classes, ElementType type, void* stream) {
  return dispatch(type, [&](auto zero) {
    using T = decltype(zero);
    cross_entropy<T>
        <<<static_cast<unsigned>(rows), kRowThreads, 0, static_cast<cudaStream_t>(stream)>>>(
            static_cast<const T*>(logits), labels, losses, lse, classes);
  });
}

int launch_cross_entropy_backward(const CrossEntropyBackward& params, ElementType type,
                                  void* stream) {
  const dim3 grid(column_blocks(params.classes),
                  static_cast<unsigned>(row_tiles(params.rows, params.classes)));
  return dispatch(type, [&](auto zero) {
    using T = decltype(zero);
    cross_entropy_backward<T><<<grid, kThreads, 0, static_cast<cudaStream_t>(stream)>>>(params);
  });
}

}  // namespace rotary::transformer::cuda
