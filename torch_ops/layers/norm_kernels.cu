// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// The norm of a sum. Each kernel reads its tensors once and writes its results once, and computes
// in float. Sums over rows are made in a fixed order, in two steps.

#include <cuda_pipeline.h>

#include <type_traits>

#include "layers/eights.cuh"

namespace rotary::torch::cuda {
namespace {

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

template <typename Work>
void by_steps(int width, const Work& work) {
  constexpr int kStep = kDrawn * kWarp;
  if (width <= kStep) return work(std::integral_constant<int, 1>{});
  if (width <= 2 * kStep) return work(std::integral_constant<int, 2>{});
  if (width <= 3 * kStep) return work(std::integral_constant<int, 3>{});
  return work(std::integral_constant<int, 4>{});
}

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

}  // namespace rotary::torch::cuda
