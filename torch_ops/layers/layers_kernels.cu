// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// Each kernel reads its tensors once and writes its results once, eight elements a step, and
// computes in float. Sums over rows are made in a fixed order, in two steps.

#include <cuda_pipeline.h>
#include <cuda_runtime.h>

#include <cmath>
#include <type_traits>

#include "layers/layers_cuda.h"
#include "linear_attention/numbers.cuh"

namespace rotary::torch::cuda {
namespace {

constexpr int kThreads = kTileColumns / kDrawn;
constexpr int kWarps = kThreads / kWarp;
constexpr unsigned kAllLanes = 0xffffffffU;

// ---- Eight elements -----------------------------------------------------------------------------

struct Eight {
  float at[kDrawn];
};

/// As they lie in memory, in parts of 16 bytes.
template <typename T>
struct Raw {
  static constexpr int kEach = 16 / sizeof(T);
  static constexpr int kParts = kDrawn / kEach;
  Pack<T, kEach> part[kParts];
};

template <typename T>
__device__ Raw<T> load_raw(const T* from) {
  Raw<T> x;
#pragma unroll
  for (int p = 0; p < Raw<T>::kParts; ++p) {
    x.part[p] = load_pack<Raw<T>::kEach>(from + p * Raw<T>::kEach);
  }
  return x;
}

template <typename T>
__device__ Eight widen_all(const Raw<T>& raw) {
  Eight x;
#pragma unroll
  for (int i = 0; i < kDrawn; ++i) {
    x.at[i] = widen(raw.part[i / Raw<T>::kEach].at[i % Raw<T>::kEach]);
  }
  return x;
}

template <typename T>
__device__ Eight load_eight(const T* from) {
  return widen_all(load_raw(from));
}

template <typename T>
__device__ void store_eight(T* to, const Eight& x) {
  constexpr int kEach = 16 / sizeof(T);
#pragma unroll
  for (int part = 0; part < kDrawn / kEach; ++part) {
    Pack<T, kEach> pack;
#pragma unroll
    for (int i = 0; i < kEach; ++i) store(&pack.at[i], x.at[part * kEach + i]);
    store_pack(to + part * kEach, pack);
  }
}

__device__ Eight zeros() { return Eight{}; }

// ---- Norm of a sum ------------------------------------------------------------------------------

/// Which of the eight elements from `element` on are kept, a bit each.
__device__ unsigned kept(const Dropout& dropout, std::uint64_t seed, std::int64_t element) {
  const Draw numbers = draw(seed, static_cast<std::uint64_t>(element / kDrawn));
  unsigned bits = 0;
#pragma unroll
  for (int i = 0; i < kDrawn; ++i) {
    bits |= (numbers.at(i) >= dropout.threshold ? 1U : 0U) << i;
  }
  return bits;
}

/// What element i of the eight is multiplied by.
__device__ float factor(unsigned bits, int i, float scale) {
  return (bits >> i & 1U) != 0 ? scale : 0.0F;
}

/// A row as one warp has it: lane l has columns 8 (32 j + l) to + 7 for each j < kSteps.
template <int kSteps>
struct Row {
  Eight at[kSteps];
};

__device__ int column_of(int step, int lane) { return kDrawn * (kWarp * step + lane); }

/// before + dropout(x + bias) for the eight from `place` on; `bits` becomes which are kept.
__device__ Eight dropped_sum(const AddNorm& job, const Eight& x, const Eight& before, int column,
                             std::int64_t place, unsigned& bits) {
  const Eight bias = job.bias == nullptr ? zeros() : load_eight(job.bias + column);
  bits = ~0U;
  if (job.seed != nullptr) {
    bits = kept(job.dropout, static_cast<std::uint64_t>(*job.seed), place);
  }
  Eight v;
#pragma unroll
  for (int i = 0; i < kDrawn; ++i) {
    v.at[i] = before.at[i] + factor(bits, i, job.dropout.scale) * (x.at[i] + bias.at[i]);
  }
  return v;
}

/// A warp has a row.
template <typename T, int kSteps>
__global__ void __launch_bounds__(kThreads) add_norm(const __grid_constant__ AddNorm job) {
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  const std::int64_t row = std::int64_t{blockIdx.x} * kWarps + threadIdx.x / kWarp;
  if (row >= job.rows) return;
  Row<kSteps> v;
  unsigned bits = 0;
#pragma unroll
  for (int j = 0; j < kSteps; ++j) {
    const int column = column_of(j, lane);
    v.at[j] = zeros();
    if (column >= job.width) continue;
    const std::int64_t place = row * job.width + column;
    const T* before = static_cast<const T*>(job.before);
    v.at[j] =
        dropped_sum(job, load_eight(static_cast<const T*>(job.x) + place),
                    before == nullptr ? zeros() : load_eight(before + place), column, place, bits);
  }
  float sum = 0.0F;
#pragma unroll
  for (int j = 0; j < kSteps; ++j) {
#pragma unroll
    for (int i = 0; i < kDrawn; ++i) sum += v.at[j].at[i];
  }
  const float count = static_cast<float>(job.width);
  const float mean = warp_sum(sum) / count;
  float squares = 0.0F;
#pragma unroll
  for (int j = 0; j < kSteps; ++j) {
    if (column_of(j, lane) >= job.width) continue;
#pragma unroll
    for (int i = 0; i < kDrawn; ++i) {
      squares += (v.at[j].at[i] - mean) * (v.at[j].at[i] - mean);
    }
  }
  const float rstd = rsqrtf(warp_sum(squares) / count + job.eps);
#pragma unroll
  for (int j = 0; j < kSteps; ++j) {
    const int column = column_of(j, lane);
    if (column >= job.width) continue;
    const Eight weight = load_eight(job.weight + column);
    const Eight shift = load_eight(job.shift + column);
    Eight y;
#pragma unroll
    for (int i = 0; i < kDrawn; ++i) {
      y.at[i] = (v.at[j].at[i] - mean) * rstd * weight.at[i] + shift.at[i];
    }
    store_eight(static_cast<T*>(job.y) + row * job.width + column, y);
  }
  if (lane == 0) {
    job.mean[row] = mean;
    job.rstd[row] = rstd;
  }
}

/// What a warp has summed up over its rows.
template <int kSteps>
struct Sums {
  Row<kSteps> weight{};
  Row<kSteps> shift{};
  Row<kSteps> bias{};
};

/// The tensors of a row on their way from memory: x, before, grad and grad_too. Each lane copies
/// what it will read itself, a row ahead of its use.
constexpr int kTensors = 4;
constexpr int kAhead = 2;

template <typename T, int kSteps>
struct Slots {
  /// [row % kAhead][tensor][step][thread]
  Raw<T>* all;

  __device__ Raw<T>* at(std::int64_t turn, int tensor, int step) const {
    const int slot = (static_cast<int>(turn % kAhead) * kTensors + tensor) * kSteps + step;
    return all + slot * kThreads + threadIdx.x;
  }
};

template <typename T, int kSteps>
__device__ void fetch(const AddNormBackward& job, std::int64_t row, std::int64_t turn, int lane,
                      const Slots<T, kSteps>& slots) {
  const void* tensors[kTensors] = {job.forward.x, job.forward.before, job.grad, job.grad_too};
  if (row < job.forward.rows) {
#pragma unroll
    for (int j = 0; j < kSteps; ++j) {
      const int column = column_of(j, lane);
      if (column >= job.forward.width) continue;
#pragma unroll
      for (int t = 0; t < kTensors; ++t) {
        if (tensors[t] == nullptr) continue;
        const T* from = static_cast<const T*>(tensors[t]) + row * job.forward.width + column;
#pragma unroll
        for (int p = 0; p < Raw<T>::kParts; ++p) {
          __pipeline_memcpy_async(&slots.at(turn, t, j)->part[p], from + p * Raw<T>::kEach, 16);
        }
      }
    }
  }
  __pipeline_commit();
}

/// With n = (v - mean) rstd and g = grad weight, over a row:
///   dv = rstd (g - mean(g) - n mean(g n)),  dbefore = dv,  dx = dv where x was kept.
template <typename T, int kSteps>
__device__ void go_back(const AddNormBackward& job, std::int64_t row, std::int64_t turn, int lane,
                        const Slots<T, kSteps>& slots, Sums<kSteps>& sums) {
  const AddNorm& f = job.forward;
  const float mean = f.mean[row];
  const float rstd = f.rstd[row];
  Row<kSteps> n;
  Row<kSteps> g;
  unsigned bits[kSteps];
  float sum_g = 0.0F;
  float sum_gn = 0.0F;
#pragma unroll
  for (int j = 0; j < kSteps; ++j) {
    const int column = column_of(j, lane);
    n.at[j] = zeros();
    g.at[j] = zeros();
    if (column >= f.width) continue;
    const std::int64_t place = row * f.width + column;
    n.at[j] = dropped_sum(f, widen_all(*slots.at(turn, 0, j)),
                          f.before == nullptr ? zeros() : widen_all(*slots.at(turn, 1, j)), column,
                          place, bits[j]);
    Eight grad = widen_all(*slots.at(turn, 2, j));
    if (job.grad_too != nullptr) {
      const Eight too = widen_all(*slots.at(turn, 3, j));
#pragma unroll
      for (int i = 0; i < kDrawn; ++i) grad.at[i] += too.at[i];
    }
    const Eight weight = load_eight(f.weight + column);
#pragma unroll
    for (int i = 0; i < kDrawn; ++i) {
      n.at[j].at[i] = (n.at[j].at[i] - mean) * rstd;
      sums.weight.at[j].at[i] += grad.at[i] * n.at[j].at[i];
      sums.shift.at[j].at[i] += grad.at[i];
      g.at[j].at[i] = grad.at[i] * weight.at[i];
      sum_g += g.at[j].at[i];
      sum_gn += g.at[j].at[i] * n.at[j].at[i];
    }
  }
  const float mean_g = warp_sum(sum_g) / static_cast<float>(f.width);
  const float mean_gn = warp_sum(sum_gn) / static_cast<float>(f.width);
#pragma unroll
  for (int j = 0; j < kSteps; ++j) {
    const int column = column_of(j, lane);
    if (column >= f.width) continue;
    const std::int64_t place = row * f.width + column;
    Eight dv;
    Eight dx;
#pragma unroll
    for (int i = 0; i < kDrawn; ++i) {
      dv.at[i] = rstd * (g.at[j].at[i] - mean_g - n.at[j].at[i] * mean_gn);
      dx.at[i] = dv.at[i] * factor(bits[j], i, f.dropout.scale);
      sums.bias.at[j].at[i] += dx.at[i];
    }
    store_eight(static_cast<T*>(job.dbefore) + place, dv);
    if (job.dx != nullptr) store_eight(static_cast<T*>(job.dx) + place, dx);
  }
}

/// total [width] becomes the sum over the block's warps, one after the other.
template <int kSteps>
__device__ void add_warps(const Row<kSteps>& own, float* total, int width, int warp, int lane) {
  for (int turn = 0; turn < kWarps; ++turn) {
    if (warp == turn) {
#pragma unroll
      for (int j = 0; j < kSteps; ++j) {
        const int column = column_of(j, lane);
        if (column >= width) continue;
#pragma unroll
        for (int i = 0; i < kDrawn; ++i) {
          total[column + i] = own.at[j].at[i] + (turn == 0 ? 0.0F : total[column + i]);
        }
      }
    }
    __syncthreads();
  }
}

template <typename T, int kSteps>
constexpr int shared_bytes() {
  return static_cast<int>(sizeof(Raw<T>)) * kAhead * kTensors * kSteps * kThreads;
}

/// A warp has every (grid's warps)-th row.
template <typename T, int kSteps>
__global__ void __launch_bounds__(kThreads, kSteps > 3 ? 2 : 3)
    add_norm_backward(const __grid_constant__ AddNormBackward job) {
  extern __shared__ __align__(16) unsigned char shared[];
  const Slots<T, kSteps> slots{reinterpret_cast<Raw<T>*>(shared)};
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  const int warp = static_cast<int>(threadIdx.x) / kWarp;
  const std::int64_t step = std::int64_t{gridDim.x} * kWarps;
  std::int64_t row = std::int64_t{blockIdx.x} * kWarps + warp;
  Sums<kSteps> sums;
  fetch<T, kSteps>(job, row, 0, lane, slots);
  for (std::int64_t turn = 0; row < job.forward.rows; row += step, ++turn) {
    fetch<T, kSteps>(job, row + step, turn + 1, lane, slots);
    __pipeline_wait_prior(1);
    go_back<T, kSteps>(job, row, turn, lane, slots, sums);
  }
  __pipeline_wait_prior(0);
  __syncthreads();  // from here on the memory is for the sums
  auto* total = reinterpret_cast<float*>(shared);
  const int width = job.forward.width;
  const Row<kSteps>* all[3] = {&sums.weight, &sums.shift, &sums.bias};
#pragma unroll
  for (int which = 0; which < 3; ++which) {
    add_warps<kSteps>(*all[which], total, width, warp, lane);
    float* out = job.partial + (std::int64_t{blockIdx.x} * 3 + which) * width;
    for (int i = static_cast<int>(threadIdx.x); i < width; i += kThreads) out[i] = total[i];
    __syncthreads();
  }
}

// ---- Bias and GELU ------------------------------------------------------------------------------

/// The normal distribution at z: cdf and density from one exponential. Abramowitz and Stegun,
/// 7.1.26; the error of the cdf is below 7.5e-8, and relative to it small in both tails.
struct Normal {
  float cdf;
  float density;
};
__device__ Normal normal(float z) {
  const float e = __expf(-0.5F * z * z);
  const float t = __fdividef(1.0F, 1.0F + 0.3275911F * 0.70710678F * fabsf(z));
  const float tail =
      0.5F * e * t *
      (0.254829592F +
       t * (-0.284496736F + t * (1.421413741F + t * (-1.453152027F + t * 1.061405429F))));
  return {z > 0.0F ? 1.0F - tail : tail, 0.39894228F * e};
}

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

template <typename T>
__global__ void __launch_bounds__(kThreads, 8)
    bias_gelu(const T* x, const float* bias, T* y, std::int64_t rows, int width) {
  const Tile tile = tile_of(rows);
  if (tile.column >= width) return;
  const Eight b = load_eight(bias + tile.column);
  for_rows<T, 1>(tile, {x}, width, [&](std::int64_t row, const Raw<T>(&raw)[1]) {
    Eight v = widen_all(raw[0]);
#pragma unroll
    for (int i = 0; i < kDrawn; ++i) {
      const float z = v.at[i] + b.at[i];
      v.at[i] = z * normal(z).cdf;
    }
    store_eight(y + row * width + tile.column, v);
  });
}

/// d gelu(z) / dz = cdf(z) + z density(z)
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
      const float z = v.at[i] + b.at[i];
      const Normal at_z = normal(z);
      d.at[i] *= at_z.cdf + z * at_z.density;
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

constexpr int kRowThreads = 512;

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

/// A block has a row.
template <typename T>
__global__ void __launch_bounds__(kRowThreads)
    cross_entropy(const T* logits, const std::int64_t* labels, float* losses, float* lse,
                  int classes) {
  __shared__ LogSum parts[kRowThreads / kWarp];
  const T* row = logits + std::int64_t{blockIdx.x} * classes;
  LogSum own;
  for (int c = kDrawn * static_cast<int>(threadIdx.x); c < classes; c += kDrawn * kRowThreads) {
    const Eight x = load_eight(row + c);
    LogSum some;
#pragma unroll
    for (int i = 0; i < kDrawn; ++i) some.most = fmaxf(some.most, x.at[i]);
#pragma unroll
    for (int i = 0; i < kDrawn; ++i) some.sum += __expf(x.at[i] - some.most);
    own.add(some);
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

/// (softmax - 1 at the label) grad
template <typename T>
__global__ void __launch_bounds__(kRowThreads)
    cross_entropy_backward(const float* grad, const T* logits, const std::int64_t* labels,
                           const float* lse, T* dlogits, int classes) {
  const std::int64_t first = std::int64_t{blockIdx.x} * classes;
  const float g = grad[blockIdx.x];
  const float total = lse[blockIdx.x];
  const std::int64_t label = labels[blockIdx.x];
#pragma unroll 2
  for (int c = kDrawn * static_cast<int>(threadIdx.x); c < classes; c += kDrawn * kRowThreads) {
    Eight x = load_eight(logits + first + c);
#pragma unroll
    for (int i = 0; i < kDrawn; ++i) {
      x.at[i] = g * (__expf(x.at[i] - total) - (c + i == label ? 1.0F : 0.0F));
    }
    store_eight(dlogits + first + c, x);
  }
}

// ---- Launching ----------------------------------------------------------------------------------

template <typename Work>
int by_type(LayerType type, const Work& work) {
  switch (type) {
    case LayerType::kFloat:
      work(float{});
      break;
    case LayerType::kBFloat16:
      work(__nv_bfloat16{});
      break;
    case LayerType::kFloat16:
      work(__half{});
      break;
  }
  return static_cast<int>(cudaGetLastError());
}

template <typename Work>
void by_steps(int width, const Work& work) {
  constexpr int kStep = kDrawn * kWarp;
  if (width <= kStep) return work(std::integral_constant<int, 1>{});
  if (width <= 2 * kStep) return work(std::integral_constant<int, 2>{});
  if (width <= 3 * kStep) return work(std::integral_constant<int, 3>{});
  return work(std::integral_constant<int, 4>{});
}

unsigned column_blocks(int width) { return static_cast<unsigned>(tile_columns(width)); }

}  // namespace

int launch_add_norm(const AddNorm& job, LayerType type, void* stream) {
  const auto blocks = static_cast<unsigned>((job.rows + kWarps - 1) / kWarps);
  return by_type(type, [&](auto zero) {
    using T = decltype(zero);
    by_steps(job.width, [&](auto steps) {
      add_norm<T, decltype(steps)::value>
          <<<blocks, kThreads, 0, static_cast<cudaStream_t>(stream)>>>(job);
    });
  });
}

int launch_add_norm_backward(const AddNormBackward& job, LayerType type, void* stream) {
  const auto blocks = static_cast<unsigned>(partial_rows(job.forward.rows));
  return by_type(type, [&](auto zero) {
    using T = decltype(zero);
    by_steps(job.forward.width, [&](auto steps) {
      constexpr auto kKernel = add_norm_backward<T, decltype(steps)::value>;
      constexpr int kBytes = shared_bytes<T, decltype(steps)::value>();
      cudaFuncSetAttribute(kKernel, cudaFuncAttributeMaxDynamicSharedMemorySize, kBytes);
      kKernel<<<blocks, kThreads, kBytes, static_cast<cudaStream_t>(stream)>>>(job);
    });
  });
}

int launch_bias_gelu(const void* x, const float* bias, void* y, std::int64_t rows, int width,
                     LayerType type, void* stream) {
  constexpr std::int64_t kRows = 8;
  constexpr std::int64_t kMostBlocks = 65535;
  const std::int64_t wanted = (rows + kRows - 1) / kRows;
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

int launch_cross_entropy_backward(const float* grad, const void* logits, const std::int64_t* labels,
                                  const float* lse, void* dlogits, std::int64_t rows, int classes,
                                  LayerType type, void* stream) {
  return by_type(type, [&](auto zero) {
    using T = decltype(zero);
    cross_entropy_backward<T>
        <<<static_cast<unsigned>(rows), kRowThreads, 0, static_cast<cudaStream_t>(stream)>>>(
            grad, static_cast<const T*>(logits), labels, lse, static_cast<T*>(dlogits), classes);
  });
}

}  // namespace rotary::torch::cuda
