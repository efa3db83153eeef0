// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// The norm of a sum. Each kernel reads its tensors once and writes its results once, and computes
// in float. Sums over rows are made in a fixed order, in two steps. Memory keeps up only with
// kernels of few instructions, so what a job does without is asked once a row, not once an element.
// Rows go from the last to the first: what the kernel before wrote last is still in the cache.

#include <cuda_pipeline.h>

#include <type_traits>

#include "layers/eights.cuh"

namespace rotary::torch::cuda {
namespace {

/// A row as one warp has it: lane l has columns 8 l + 256 j to + 7 for each j < kSteps.
template <int kSteps>
struct Row {
  Eight at[kSteps];
};
constexpr int kStride = kDrawn * kWarp;

/// The first row that a warp has, or less than 0.
__device__ std::int64_t row_of(std::int64_t rows) {
  return rows - 1 - (std::int64_t{blockIdx.x} * kWarps + threadIdx.x / kWarp);
}

/// Where a lane begins in a row; its steps are constants from there.
__device__ std::int64_t place_of(std::int64_t row, int width, int lane) {
  return row * width + kDrawn * lane;
}

/// Only in the last step are there columns beyond the width.
template <int kSteps>
__device__ bool has_column(int step, int lane, int width) {
  return step + 1 < kSteps || kStride * step + kDrawn * lane < width;
}

/// Calls use(step, element) for all that a lane has.
template <int kSteps, typename Use>
__device__ void each(const Use& use) {
#pragma unroll
  for (int j = 0; j < kSteps; ++j) {
#pragma unroll
    for (int i = 0; i < kDrawn; ++i) use(j, i);
  }
}

/// Of [width]; 0 beyond it.
template <int kSteps>
__device__ Row<kSteps> load_parameter(const float* from, int lane, int width) {
  Row<kSteps> row{};
#pragma unroll
  for (int j = 0; j < kSteps; ++j) {
    if (has_column<kSteps>(j, lane, width)) {
      row.at[j] = load_eight(from + kDrawn * lane + kStride * j);
    }
  }
  return row;
}

template <int kSteps, typename T>
__device__ void store_row(T* to, const Row<kSteps>& row, int lane, int width) {
#pragma unroll
  for (int j = 0; j < kSteps; ++j) {
    if (has_column<kSteps>(j, lane, width)) store_eight(to + kStride * j, row.at[j]);
  }
}

__device__ void add(const Eight& more, Eight& to) {
#pragma unroll
  for (int i = 0; i < kDrawn; ++i) to.at[i] += more.at[i];
}
__device__ void multiply(const Eight& by, Eight& x) {
#pragma unroll
  for (int i = 0; i < kDrawn; ++i) x.at[i] *= by.at[i];
}
template <int kSteps>
__device__ void add_row(const Row<kSteps>& more, Row<kSteps>& to) {
#pragma unroll
  for (int j = 0; j < kSteps; ++j) add(more.at[j], to.at[j]);
}
template <int kSteps>
__device__ void multiply_row(const Row<kSteps>& by, Row<kSteps>& row) {
#pragma unroll
  for (int j = 0; j < kSteps; ++j) multiply(by.at[j], row.at[j]);
}

/// What dropout multiplies eight elements by. Each number is compared where it is the upper half of
/// a word: what lies below it makes no difference.
__device__ Eight factors(const AddNorm& job, std::uint64_t seed, std::int64_t place) {
  const Draw numbers = draw(seed, static_cast<std::uint64_t>(place) / kDrawn);
  const std::uint32_t least = job.dropout.threshold << 16;  // 0 where all are dropped
  const float scale = job.dropout.threshold < kDrawSteps ? job.dropout.scale : 0.0F;
  Eight all;
#pragma unroll
  for (int i = 0; i < kDrawn; ++i) {
    const std::uint32_t word = numbers.word[i / 2];
    all.at[i] = (i % 2 == 0 ? word << 16 : word) >= least ? scale : 0.0F;
  }
  return all;
}
__device__ std::uint64_t seed_of(const AddNorm& job) {
  return job.seed == nullptr ? 0 : static_cast<std::uint64_t>(*job.seed);
}
__device__ bool drops_sum(const AddNorm& job) { return job.seed != nullptr && !job.drops_result; }
__device__ bool drops_result(const AddNorm& job) { return job.seed != nullptr && job.drops_result; }

template <int kSteps>
__device__ float row_sum(const Row<kSteps>& row) {
  float sum = 0.0F;
  each<kSteps>([&](int j, int i) { sum += row.at[j].at[i]; });
  return warp_sum(sum);
}

/// before + dropout(x + bias) for the eight from `place` on.
template <typename T>
__device__ Eight load_sum(const AddNorm& job, std::uint64_t seed, std::int64_t place, int column) {
  Eight v = load_eight(static_cast<const T*>(job.x) + place);
  if (job.bias != nullptr) add(load_eight(job.bias + column), v);
  if (drops_sum(job)) multiply(factors(job, seed, place), v);
  if (job.before != nullptr) add(load_eight(static_cast<const T*>(job.before) + place), v);
  return v;
}

/// A warp has a row.
template <typename T, int kSteps>
__global__ void __launch_bounds__(kThreads, kSteps > 3 ? 6 : 8)
    add_norm(const __grid_constant__ AddNorm job) {
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  const std::int64_t row = row_of(job.rows);
  if (row < 0) return;
  const int width = job.width;
  const std::int64_t place = place_of(row, width, lane);
  const std::uint64_t seed = seed_of(job);
  Row<kSteps> v{};
#pragma unroll
  for (int j = 0; j < kSteps; ++j) {
    if (!has_column<kSteps>(j, lane, width)) continue;
    v.at[j] = load_sum<T>(job, seed, place + kStride * j, kDrawn * lane + kStride * j);
  }
  const float count = static_cast<float>(width);
  const float mean = row_sum(v) / count;
  float squares = 0.0F;
  each<kSteps>([&](int j, int i) {
    v.at[j].at[i] -= mean;
    if (has_column<kSteps>(j, lane, width)) squares += v.at[j].at[i] * v.at[j].at[i];
  });
  const float rstd = rsqrtf(warp_sum(squares) / count + job.eps);
#pragma unroll
  for (int j = 0; j < kSteps; ++j) {
    if (!has_column<kSteps>(j, lane, width)) continue;
    const Eight weight = load_eight(job.weight + kDrawn * lane + kStride * j);
    const Eight shift = load_eight(job.shift + kDrawn * lane + kStride * j);
    Eight y;
#pragma unroll
    for (int i = 0; i < kDrawn; ++i) y.at[i] = v.at[j].at[i] * rstd * weight.at[i] + shift.at[i];
    if (drops_result(job)) multiply(factors(job, seed, place + kStride * j), y);
    store_eight(static_cast<T*>(job.y) + place + kStride * j, y);
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

/// The tensors of a row on their way from memory. Each lane copies what it will read itself, a row
/// ahead of its use.
enum Tensor { kX, kBefore, kGrad, kGradToo, kTensors };
constexpr int kAhead = 2;

template <typename T, int kSteps>
struct Slots {
  /// [row % kAhead][tensor][step][thread]
  Raw<T>* all;

  __device__ Raw<T>* at(int turn, int tensor, int step) const {
    return all + ((turn * kTensors + tensor) * kSteps + step) * kThreads + threadIdx.x;
  }
  /// By 16 bytes: element by element, lanes would wait for each other.
  __device__ Row<kSteps> read(int turn, int tensor) const {
    Row<kSteps> row;
#pragma unroll
    for (int j = 0; j < kSteps; ++j) {
      row.at[j] = load_eight(reinterpret_cast<const T*>(at(turn, tensor, j)));
    }
    return row;
  }
  /// What lies beyond the width is never copied.
  __device__ void clear_last_step() const {
    for (int turn = 0; turn < kAhead; ++turn) {
      for (int t = 0; t < kTensors; ++t) *at(turn, t, kSteps - 1) = Raw<T>{};
    }
  }
};

template <typename T, int kSteps>
__device__ void fetch(const AddNormBackward& job, std::int64_t row, int turn, int lane,
                      const Slots<T, kSteps>& slots) {
  const void* tensors[kTensors] = {job.forward.x, job.forward.before, job.grad, job.grad_too};
  if (row >= 0) {
    const std::int64_t place = place_of(row, job.forward.width, lane);
#pragma unroll
    for (int t = 0; t < kTensors; ++t) {
      if (tensors[t] == nullptr) continue;
      const T* from = static_cast<const T*>(tensors[t]) + place;
#pragma unroll
      for (int j = 0; j < kSteps; ++j) {
        if (!has_column<kSteps>(j, lane, job.forward.width)) continue;
#pragma unroll
        for (int p = 0; p < Raw<T>::kParts; ++p) {
          __pipeline_memcpy_async(&slots.at(turn, t, j)->part[p],
                                  from + kStride * j + p * Raw<T>::kEach, 16);
        }
      }
    }
  }
  __pipeline_commit();
}

/// What was kept of a row's norm.
struct Norm {
  float mean = 0.0F;
  float rstd = 0.0F;
};
__device__ Norm norm_of(const AddNorm& job, std::int64_t row) {
  return row >= 0 ? Norm{job.mean[row], job.rstd[row]} : Norm{};
}

/// With n = (v - mean) rstd and g = grad weight, over a row:
///   dv = rstd (g - mean(g) - n mean(g n)),  dbefore = dv,  dx = dv where x was kept.
template <typename T, int kSteps>
__device__ void go_back(const AddNormBackward& job, std::int64_t row, const Norm& norm,
                        std::uint64_t seed, int turn, int lane, const Slots<T, kSteps>& slots,
                        Sums<kSteps>& sums) {
  const AddNorm& f = job.forward;
  const std::int64_t place = place_of(row, f.width, lane);
  Row<kSteps> factor;
  if (f.seed != nullptr) {
#pragma unroll
    for (int j = 0; j < kSteps; ++j) factor.at[j] = factors(f, seed, place + kStride * j);
  }
  Row<kSteps> n = slots.read(turn, kX);
  if (f.bias != nullptr) add_row(load_parameter<kSteps>(f.bias, lane, f.width), n);
  if (drops_sum(f)) multiply_row(factor, n);
  if (f.before != nullptr) add_row(slots.read(turn, kBefore), n);
  Row<kSteps> g = slots.read(turn, kGrad);
  if (job.grad_too != nullptr) add_row(slots.read(turn, kGradToo), g);
  if (drops_result(f)) multiply_row(factor, g);

  const Row<kSteps> weight = load_parameter<kSteps>(f.weight, lane, f.width);
  float sum_gn = 0.0F;
  each<kSteps>([&](int j, int i) {
    n.at[j].at[i] = (n.at[j].at[i] - norm.mean) * norm.rstd;
    sums.weight.at[j].at[i] += g.at[j].at[i] * n.at[j].at[i];
    sums.shift.at[j].at[i] += g.at[j].at[i];
    g.at[j].at[i] *= weight.at[j].at[i];
    sum_gn += g.at[j].at[i] * n.at[j].at[i];
  });
  const float of_one = -norm.rstd * row_sum(g) / static_cast<float>(f.width);
  const float of_n = -norm.rstd * warp_sum(sum_gn) / static_cast<float>(f.width);
  each<kSteps>([&](int j, int i) {
    g.at[j].at[i] = norm.rstd * g.at[j].at[i] + (of_n * n.at[j].at[i] + of_one);
  });
  store_row(static_cast<T*>(job.dbefore) + place, g, lane, f.width);
  if (drops_sum(f)) {
    multiply_row(factor, g);
    store_row(static_cast<T*>(job.dx) + place, g, lane, f.width);
  }
  add_row(g, sums.bias);
}

/// The sums over the block's warps, one warp after the other, to the block's part of `partial`.
/// `shared` has room for [kWarps, 3, width].
template <int kSteps>
__device__ void add_warps(const AddNormBackward& job, const Sums<kSteps>& sums, float* shared,
                          int warp, int lane) {
  const int width = job.forward.width;
  float* own = shared + place_of(warp * 3, width, lane);
  store_row(own, sums.weight, lane, width);
  store_row(own + width, sums.shift, lane, width);
  store_row(own + 2 * width, sums.bias, lane, width);
  __syncthreads();
  for (int i = kDrawn * static_cast<int>(threadIdx.x); i < 3 * width; i += kDrawn * kThreads) {
    Eight total = load_eight(shared + i);
#pragma unroll
    for (int w = 1; w < kWarps; ++w) {
      add(load_eight(shared + w * 3 * width + i), total);
    }
    store_eight(job.partial + std::int64_t{blockIdx.x} * 3 * width + i, total);
  }
}

/// For rows on their way, and for the block's sums afterwards.
template <typename T, int kSteps>
constexpr int shared_bytes() {
  constexpr int kRows = static_cast<int>(sizeof(Raw<T>)) * kAhead * kTensors * kSteps * kThreads;
  constexpr int kSums = static_cast<int>(sizeof(Eight)) * kWarps * 3 * kSteps * kWarp;
  return kRows > kSums ? kRows : kSums;
}

/// A warp has every (grid's warps)-th row. With more blocks a multiprocessor, the sums would not
/// fit into registers.
template <typename T, int kSteps>
__global__ void __launch_bounds__(kThreads, 2)
    add_norm_backward(const __grid_constant__ AddNormBackward job) {
  extern __shared__ __align__(16) unsigned char shared[];
  const Slots<T, kSteps> slots{reinterpret_cast<Raw<T>*>(shared)};
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  const int warp = static_cast<int>(threadIdx.x) / kWarp;
  const std::int64_t step = std::int64_t{gridDim.x} * kWarps;
  const std::uint64_t seed = seed_of(job.forward);
  std::int64_t row = row_of(job.forward.rows);
  Sums<kSteps> sums;
  if (!has_column<kSteps>(kSteps - 1, lane, job.forward.width)) slots.clear_last_step();
  Norm next = norm_of(job.forward, row);
  fetch<T, kSteps>(job, row, 0, lane, slots);
  for (int turn = 0; row >= 0; row -= step, turn = 1 - turn) {
    fetch<T, kSteps>(job, row - step, 1 - turn, lane, slots);
    const Norm norm = next;
    next = norm_of(job.forward, row - step);
    __pipeline_wait_prior(1);
    go_back<T, kSteps>(job, row, norm, seed, turn, lane, slots, sums);
  }
  __pipeline_wait_prior(0);
  __syncthreads();  // from here on the memory is for the sums
  add_warps<kSteps>(job, sums, reinterpret_cast<float*>(shared), warp, lane);
}

template <typename Work>
void by_steps(int width, const Work& work) {
  if (width <= kStride) return work(std::integral_constant<int, 1>{});
  if (width <= 2 * kStride) return work(std::integral_constant<int, 2>{});
  if (width <= 3 * kStride) return work(std::integral_constant<int, 3>{});
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
