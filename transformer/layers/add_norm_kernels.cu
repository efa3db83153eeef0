// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// add_norm(), forward and backward: residual, bias, dropout and layer norm. Each kernel reads and
// writes its tensors once and computes in float. Sums over rows are made in a fixed order, in two
// steps. The kernels reach memory bandwidth only with few instructions per element, so absent
// inputs are tested per row, not per element. Rows go from the last to the first: what the kernel
// before wrote last is still in the L2 cache.

#include <cuda_pipeline.h>

#include <type_traits>

#include "transformer/layers/vec.cuh"

namespace rotary::transformer::cuda {
namespace {

/// A lane's part of a row, which a warp shares: columns 8 lane + 256 j to 8 lane + 256 j + 7 for
/// each j < kSteps.
template <int kSteps>
struct Row {
  Vec<float> vec[kSteps];
};
constexpr int kStride = kVecSize * kWarpSize;

/// The first row of a warp; negative where there is none.
__device__ std::int64_t first_row(std::int64_t rows) {
  return rows - 1 - (std::int64_t{blockIdx.x} * kWarps + threadIdx.x / kWarpSize);
}

/// Offset of a lane's first element; its steps are at constant distances from there.
__device__ std::int64_t offset_of(std::int64_t row, int width, int lane) {
  return row * width + kVecSize * lane;
}

/// Whether a step has columns within the width: always, but for the last step.
template <int kSteps>
__device__ bool has_column(int step, int lane, int width) {
  return step + 1 < kSteps || kStride * step + kVecSize * lane < width;
}

/// Calls use(step, i) for every element of a lane.
template <int kSteps, typename Use>
__device__ void for_each(const Use& use) {
#pragma unroll
  for (int j = 0; j < kSteps; ++j) {
#pragma unroll
    for (int i = 0; i < kVecSize; ++i) use(j, i);
  }
}

/// A parameter, [width]; 0 beyond it.
template <int kSteps>
__device__ Row<kSteps> load_parameter(const float* from, int lane, int width) {
  Row<kSteps> row{};
#pragma unroll
  for (int j = 0; j < kSteps; ++j) {
    if (has_column<kSteps>(j, lane, width)) {
      row.vec[j] = load_vec(from + kVecSize * lane + kStride * j);
    }
  }
  return row;
}

template <int kSteps, typename T>
__device__ void store_row(T* to, const Row<kSteps>& row, int lane, int width) {
#pragma unroll
  for (int j = 0; j < kSteps; ++j) {
    if (has_column<kSteps>(j, lane, width)) store_vec(to + kStride * j, row.vec[j]);
  }
}

__device__ void add(const Vec<float>& more, Vec<float>& to) {
#pragma unroll
  for (int i = 0; i < kVecSize; ++i) to[i] += more[i];
}
__device__ void multiply(const Vec<float>& by, Vec<float>& x) {
#pragma unroll
  for (int i = 0; i < kVecSize; ++i) x[i] *= by[i];
}
template <int kSteps>
__device__ void add_row(const Row<kSteps>& more, Row<kSteps>& to) {
#pragma unroll
  for (int j = 0; j < kSteps; ++j) add(more.vec[j], to.vec[j]);
}
template <int kSteps>
__device__ void multiply_row(const Row<kSteps>& by, Row<kSteps>& row) {
#pragma unroll
  for (int j = 0; j < kSteps; ++j) multiply(by.vec[j], row.vec[j]);
}

/// Dropout mask of eight elements: 0 or 1 / keep_prob. Each 16-bit random value is compared in the
/// upper half of a word; the bits below it cannot change the outcome.
__device__ Vec<float> dropout_mask(const AddNorm& params, std::uint64_t seed, std::int64_t offset) {
  const Philox4x32 random = philox4x32(seed, static_cast<std::uint64_t>(offset) / kVecSize);
  const std::uint32_t threshold = params.dropout.threshold << 16;  // 0 where all are dropped
  const float scale = params.dropout.threshold < kDropoutSteps ? params.dropout.scale : 0.0F;
  Vec<float> all;
#pragma unroll
  for (int i = 0; i < kVecSize; ++i) {
    const std::uint32_t word = random.word[i / 2];
    all[i] = (i % 2 == 0 ? word << 16 : word) >= threshold ? scale : 0.0F;
  }
  return all;
}
__device__ std::uint64_t seed_of(const AddNorm& params) {
  return params.seed == nullptr ? 0 : static_cast<std::uint64_t>(*params.seed);
}
__device__ bool drops_sum(const AddNorm& params) {
  return params.seed != nullptr && !params.drops_result;
}
__device__ bool drops_result(const AddNorm& params) {
  return params.seed != nullptr && params.drops_result;
}

template <int kSteps>
__device__ float row_sum(const Row<kSteps>& row) {
  float sum = 0.0F;
  for_each<kSteps>([&](int j, int i) { sum += row.vec[j][i]; });
  return warp_sum(sum);
}

/// residual + dropout(x + bias) for the eight elements from `offset` on.
template <typename T>
__device__ Vec<float> load_sum(const AddNorm& params, std::uint64_t seed, std::int64_t offset,
                               int column) {
  Vec<float> v = load_vec(static_cast<const T*>(params.x) + offset);
  if (params.bias != nullptr) add(load_vec(params.bias + column), v);
  if (drops_sum(params)) multiply(dropout_mask(params, seed, offset), v);
  if (params.residual != nullptr) add(load_vec(static_cast<const T*>(params.residual) + offset), v);
  return v;
}

/// One warp per row.
template <typename T, int kSteps>
__global__ void __launch_bounds__(kThreads, kSteps > 3 ? 6 : 8)
    add_norm(const __grid_constant__ AddNorm params) {
  const int lane = static_cast<int>(threadIdx.x) % kWarpSize;
  const std::int64_t row = first_row(params.rows);
  if (row < 0) return;
  const int width = params.width;
  const std::int64_t offset = offset_of(row, width, lane);
  const std::uint64_t seed = seed_of(params);
  Row<kSteps> v{};
#pragma unroll
  for (int j = 0; j < kSteps; ++j) {
    if (!has_column<kSteps>(j, lane, width)) continue;
    v.vec[j] = load_sum<T>(params, seed, offset + kStride * j, kVecSize * lane + kStride * j);
  }
  const float count = static_cast<float>(width);
  const float mean = row_sum(v) / count;
  float squares = 0.0F;
  for_each<kSteps>([&](int j, int i) {
    v.vec[j][i] -= mean;
    if (has_column<kSteps>(j, lane, width)) squares += v.vec[j][i] * v.vec[j][i];
  });
  const float rstd = rsqrtf(warp_sum(squares) / count + params.eps);
#pragma unroll
  for (int j = 0; j < kSteps; ++j) {
    if (!has_column<kSteps>(j, lane, width)) continue;
    const Vec<float> weight = load_vec(params.weight + kVecSize * lane + kStride * j);
    const Vec<float> shift = load_vec(params.shift + kVecSize * lane + kStride * j);
    Vec<float> y;
#pragma unroll
    for (int i = 0; i < kVecSize; ++i) y[i] = v.vec[j][i] * rstd * weight[i] + shift[i];
    if (drops_result(params)) multiply(dropout_mask(params, seed, offset + kStride * j), y);
    store_vec(static_cast<T*>(params.y) + offset + kStride * j, y);
  }
  if (lane == 0) {
    params.mean[row] = mean;
    params.rstd[row] = rstd;
  }
}

/// A warp's sums over its rows: gradients of the parameters.
template <int kSteps>
struct ParameterGrads {
  Row<kSteps> weight{};
  Row<kSteps> shift{};
  Row<kSteps> bias{};
};

/// Inputs of backward, copied by cp.async into shared memory, one row ahead where a double buffer
/// fits. Each lane copies what it reads itself, so that no barrier is needed.
enum Input { kX, kResidual, kGrad, kGradResidual, kInputs };

/// The most shared memory that a block can have on GPUs of compute capability 8.6, 8.9 and 12.0.
constexpr int kMaxSharedBytes = 99 * 1024;
template <typename T, int kSteps>
constexpr int kStageBytes = static_cast<int>(sizeof(Vec<T>)) * kInputs * kSteps * kThreads;
/// One for float32 rows above 768 columns.
template <typename T, int kSteps>
constexpr int kStages = 2 * kStageBytes<T, kSteps> <= kMaxSharedBytes ? 2 : 1;

template <typename T, int kSteps>
struct RowBuffer {
  /// [stage][input][step][thread]
  Vec<T>* data;

  __device__ Vec<T>* at(int stage, int input, int step) const {
    return data + ((stage * kInputs + input) * kSteps + step) * kThreads + threadIdx.x;
  }
  /// In 16-byte accesses: element by element there would be bank conflicts.
  __device__ Row<kSteps> read(int stage, int input) const {
    Row<kSteps> row;
#pragma unroll
    for (int j = 0; j < kSteps; ++j) {
      row.vec[j] = load_vec(reinterpret_cast<const T*>(at(stage, input, j)));
    }
    return row;
  }
  /// Zeros beyond the width, where nothing is ever copied.
  __device__ void clear_last_step() const {
    for (int stage = 0; stage < kStages<T, kSteps>; ++stage) {
      for (int t = 0; t < kInputs; ++t) *at(stage, t, kSteps - 1) = Vec<T>{};
    }
  }
};

/// Starts the copies of a row, if there is one.
template <typename T, int kSteps>
__device__ void prefetch(const AddNormBackward& params, std::int64_t row, int stage, int lane,
                         const RowBuffer<T, kSteps>& buffer) {
  const void* inputs[kInputs] = {params.forward.x, params.forward.residual, params.grad,
                                 params.grad_residual};
  if (row >= 0) {
    const std::int64_t offset = offset_of(row, params.forward.width, lane);
#pragma unroll
    for (int t = 0; t < kInputs; ++t) {
      if (inputs[t] == nullptr) continue;
      const T* from = static_cast<const T*>(inputs[t]) + offset;
#pragma unroll
      for (int j = 0; j < kSteps; ++j) {
        if (!has_column<kSteps>(j, lane, params.forward.width)) continue;
#pragma unroll
        for (int p = 0; p < Vec<T>::kPacks; ++p) {
          __pipeline_memcpy_async(&buffer.at(stage, t, j)->pack[p],
                                  from + kStride * j + p * Vec<T>::kPerPack, 16);
        }
      }
    }
  }
  __pipeline_commit();
}

/// Statistics of a row, saved by forward.
struct RowStats {
  float mean = 0.0F;
  float rstd = 0.0F;
};
__device__ RowStats load_stats(const AddNorm& params, std::int64_t row) {
  return row >= 0 ? RowStats{params.mean[row], params.rstd[row]} : RowStats{};
}

/// Backward of one row. With v the input of the norm, n = (v - mean) rstd and g = grad weight:
///   dv = rstd (g - mean(g) - n mean(g n)),  dresidual = dv,  dx = dropout_mask dv.
template <typename T, int kSteps>
__device__ void backward_row(const AddNormBackward& params, std::int64_t row, const RowStats& stats,
                             std::uint64_t seed, int stage, int lane,
                             const RowBuffer<T, kSteps>& buffer, ParameterGrads<kSteps>& sums) {
  const AddNorm& f = params.forward;
  const std::int64_t offset = offset_of(row, f.width, lane);
  Row<kSteps> mask;
  if (f.seed != nullptr) {
#pragma unroll
    for (int j = 0; j < kSteps; ++j) mask.vec[j] = dropout_mask(f, seed, offset + kStride * j);
  }
  Row<kSteps> n = buffer.read(stage, kX);
  if (f.bias != nullptr) add_row(load_parameter<kSteps>(f.bias, lane, f.width), n);
  if (drops_sum(f)) multiply_row(mask, n);
  if (f.residual != nullptr) add_row(buffer.read(stage, kResidual), n);
  Row<kSteps> g = buffer.read(stage, kGrad);
  if (params.grad_residual != nullptr) add_row(buffer.read(stage, kGradResidual), g);
  if (drops_result(f)) multiply_row(mask, g);

  const Row<kSteps> weight = load_parameter<kSteps>(f.weight, lane, f.width);
  float sum_gn = 0.0F;
  for_each<kSteps>([&](int j, int i) {
    n.vec[j][i] = (n.vec[j][i] - stats.mean) * stats.rstd;
    sums.weight.vec[j][i] += g.vec[j][i] * n.vec[j][i];
    sums.shift.vec[j][i] += g.vec[j][i];
    g.vec[j][i] *= weight.vec[j][i];
    sum_gn += g.vec[j][i] * n.vec[j][i];
  });
  const float minus_rstd_mean_g = -stats.rstd * row_sum(g) / static_cast<float>(f.width);
  const float minus_rstd_mean_gn = -stats.rstd * warp_sum(sum_gn) / static_cast<float>(f.width);
  for_each<kSteps>([&](int j, int i) {
    g.vec[j][i] = stats.rstd * g.vec[j][i] + (minus_rstd_mean_gn * n.vec[j][i] + minus_rstd_mean_g);
  });
  store_row(static_cast<T*>(params.dresidual) + offset, g, lane, f.width);
  if (drops_sum(f)) {
    multiply_row(mask, g);
    store_row(static_cast<T*>(params.dx) + offset, g, lane, f.width);
  }
  add_row(g, sums.bias);
}

/// Adds the sums of the block's warps in order and stores them as the block's row of `partial`.
/// `shared` holds [kWarps, 3, width].
template <int kSteps>
__device__ void add_warps(const AddNormBackward& params, const ParameterGrads<kSteps>& sums,
                          float* shared, int warp, int lane) {
  const int width = params.forward.width;
  float* own = shared + offset_of(warp * 3, width, lane);
  store_row(own, sums.weight, lane, width);
  store_row(own + width, sums.shift, lane, width);
  store_row(own + 2 * width, sums.bias, lane, width);
  __syncthreads();
  for (int i = kVecSize * static_cast<int>(threadIdx.x); i < 3 * width; i += kVecSize * kThreads) {
    Vec<float> total = load_vec(shared + i);
#pragma unroll
    for (int w = 1; w < kWarps; ++w) {
      add(load_vec(shared + w * 3 * width + i), total);
    }
    store_vec(params.partial + std::int64_t{blockIdx.x} * 3 * width + i, total);
  }
}

/// Of the row buffer, and of the block's sums afterwards.
template <typename T, int kSteps>
constexpr int shared_bytes() {
  constexpr int kRows = kStages<T, kSteps> * kStageBytes<T, kSteps>;
  constexpr int kSums = static_cast<int>(sizeof(Vec<float>)) * kWarps * 3 * kSteps * kWarpSize;
  constexpr int kBytes = kRows > kSums ? kRows : kSums;
  static_assert(kBytes <= kMaxSharedBytes);
  return kBytes;
}

/// A warp has every n-th row, n being the number of warps of the grid. With more than two blocks
/// per multiprocessor the sums would not fit into registers.
template <typename T, int kSteps>
__global__ void __launch_bounds__(kThreads, 2)
    add_norm_backward(const __grid_constant__ AddNormBackward params) {
  extern __shared__ __align__(16) unsigned char shared[];
  const RowBuffer<T, kSteps> buffer{reinterpret_cast<Vec<T>*>(shared)};
  const int lane = static_cast<int>(threadIdx.x) % kWarpSize;
  const int warp = static_cast<int>(threadIdx.x) / kWarpSize;
  const std::int64_t step = std::int64_t{gridDim.x} * kWarps;
  const std::uint64_t seed = seed_of(params.forward);
  std::int64_t row = first_row(params.forward.rows);
  ParameterGrads<kSteps> sums;
  if (!has_column<kSteps>(kSteps - 1, lane, params.forward.width)) buffer.clear_last_step();
  if constexpr (kStages<T, kSteps> == 1) {
    for (; row >= 0; row -= step) {
      prefetch<T, kSteps>(params, row, 0, lane, buffer);
      const RowStats stats = load_stats(params.forward, row);
      __pipeline_wait_prior(0);
      backward_row<T, kSteps>(params, row, stats, seed, 0, lane, buffer, sums);
    }
  } else {
    RowStats next = load_stats(params.forward, row);
    prefetch<T, kSteps>(params, row, 0, lane, buffer);
    for (int stage = 0; row >= 0; row -= step, stage = 1 - stage) {
      prefetch<T, kSteps>(params, row - step, 1 - stage, lane, buffer);
      const RowStats stats = next;
      next = load_stats(params.forward, row - step);
      __pipeline_wait_prior(1);
      backward_row<T, kSteps>(params, row, stats, seed, stage, lane, buffer, sums);
    }
  }
  __pipeline_wait_prior(0);
  __syncthreads();  // the buffer becomes memory for the sums
  add_warps<kSteps>(params, sums, reinterpret_cast<float*>(shared), warp, lane);
}

/// Calls launch(kSteps) with the steps that cover the width.
template <typename Launch>
void dispatch_steps(int width, const Launch& launch) {
  if (width <= kStride) return launch(std::integral_constant<int, 1>{});
  if (width <= 2 * kStride) return launch(std::integral_constant<int, 2>{});
  if (width <= 3 * kStride) return launch(std::integral_constant<int, 3>{});
  return launch(std::integral_constant<int, 4>{});
}

}  // namespace

int launch_add_norm(const AddNorm& params, ElementType type, void* stream) {
  const auto blocks = static_cast<unsigned>((params.rows + kWarps - 1) / kWarps);
  return dispatch(type, [&](auto zero) {
    using T = decltype(zero);
    dispatch_steps(params.width, [&](auto steps) {
      add_norm<T, decltype(steps)::value>
          <<<blocks, kThreads, 0, static_cast<cudaStream_t>(stream)>>>(params);
    });
  });
}

int launch_add_norm_backward(const AddNormBackward& params, ElementType type, void* stream) {
  const auto blocks = static_cast<unsigned>(norm_blocks(params.forward.rows));
  return dispatch(type, [&](auto zero) {
    using T = decltype(zero);
    dispatch_steps(params.forward.width, [&](auto steps) {
      constexpr auto kKernel = add_norm_backward<T, decltype(steps)::value>;
      constexpr int kBytes = shared_bytes<T, decltype(steps)::value>();
      cudaFuncSetAttribute(kKernel, cudaFuncAttributeMaxDynamicSharedMemorySize, kBytes);
      kKernel<<<blocks, kThreads, kBytes, static_cast<cudaStream_t>(stream)>>>(params);
    });
  });
}

}  // namespace rotary::transformer::cuda
