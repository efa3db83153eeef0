// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// Rotation by frequencies of each head, and its backward pass, each in one kernel. Angles are
// computed where they are used, in double: one multiplication per axis, reduced to a turn, then
// sincospi in the compute type. A table of cos and sin would be as large as a batch row of the
// tensor.

#include <cuda_runtime.h>

#include "device/elements.cuh"
#include "pytorch/per_head_kernels.h"

namespace rotary::torch::cuda {
namespace {

using device::Accum;

constexpr int kThreads = 128;
constexpr int kMaxAxes = 4;
constexpr double kTurnsPerRadian = 0.15915494309189533577;
/// Batch rows that a thread rotates by the same angles.
constexpr std::int64_t kRowsPerThread = 4;

/// cos and sin of a phase in radians.
__device__ __forceinline__ void cos_sin(double phase, float* c, float* s) {
  const double turns = phase * kTurnsPerRadian;
  sincospif(static_cast<float>(2.0 * (turns - rint(turns))), s, c);
}
__device__ __forceinline__ void cos_sin(double phase, double* c, double* s) {
  const double turns = phase * kTurnsPerRadian;
  sincospi(2.0 * (turns - rint(turns)), s, c);
}

/// Pairs of a head that one thread handles.
template <typename C, int kPairs>
struct Fragment {
  C x[kPairs];
  C y[kPairs];
};

template <typename T, int kCount>
struct alignas(sizeof(T) * kCount) Pack {
  T values[kCount];
};

/// Element of pair `i` in a head: the first (0) or the second (1) one.
__device__ __forceinline__ int element_of(bool halves, int pairs, int i, int which) {
  return halves ? i + which * pairs : 2 * i + which;
}

/// Pairs from `first` on; `head` is the first rotated element. With kPairs > 1, two packs of 16
/// bytes; kHalf is not used otherwise.
template <typename T, int kPairs, bool kHalf>
__device__ __forceinline__ Fragment<Accum<T>, kPairs> load_pairs(const T* head, int pairs,
                                                                 int first, bool halves) {
  Fragment<Accum<T>, kPairs> f;
  if constexpr (kPairs == 1) {
    f.x[0] = device::to_accum(head[element_of(halves, pairs, first, 0)]);
    f.y[0] = device::to_accum(head[element_of(halves, pairs, first, 1)]);
  } else {
    using P = Pack<T, kPairs>;
    const T* from = kHalf ? head + first : head + 2 * first;
    const P a = *reinterpret_cast<const P*>(from);
    const P b = *reinterpret_cast<const P*>(from + (kHalf ? pairs : kPairs));
#pragma unroll
    for (int i = 0; i < kPairs; ++i) {
      if constexpr (kHalf) {
        f.x[i] = device::to_accum(a.values[i]);
        f.y[i] = device::to_accum(b.values[i]);
      } else {
        const P& pack = i < kPairs / 2 ? a : b;
        f.x[i] = device::to_accum(pack.values[2 * i % kPairs]);
        f.y[i] = device::to_accum(pack.values[2 * i % kPairs + 1]);
      }
    }
  }
  return f;
}

template <typename T, int kPairs, bool kHalf>
__device__ __forceinline__ void store_pairs(const Fragment<Accum<T>, kPairs>& f, T* head, int pairs,
                                            int first, bool halves) {
  if constexpr (kPairs == 1) {
    head[element_of(halves, pairs, first, 0)] = device::from_accum<T>(f.x[0]);
    head[element_of(halves, pairs, first, 1)] = device::from_accum<T>(f.y[0]);
  } else {
    using P = Pack<T, kPairs>;
    P a;
    P b;
#pragma unroll
    for (int i = 0; i < kPairs; ++i) {
      if constexpr (kHalf) {
        a.values[i] = device::from_accum<T>(f.x[i]);
        b.values[i] = device::from_accum<T>(f.y[i]);
      } else {
        P& pack = i < kPairs / 2 ? a : b;
        pack.values[2 * i % kPairs] = device::from_accum<T>(f.x[i]);
        pack.values[2 * i % kPairs + 1] = device::from_accum<T>(f.y[i]);
      }
    }
    T* to = kHalf ? head + first : head + 2 * first;
    *reinterpret_cast<P*>(to) = a;
    *reinterpret_cast<P*>(to + (kHalf ? pairs : kPairs)) = b;
  }
}

/// Elements of a head that are not rotated, every `count`-th from the `first` on.
template <typename T>
__device__ __forceinline__ void copy_rest(const PerHeadParams& p, const T* from, T* to, int first,
                                          int count) {
  const int rest = p.head_dim - 2 * p.pairs;
  for (int i = first; i < rest; i += count) {
    const int e = i < p.rotary_offset ? i : i + 2 * p.pairs;
    to[e] = from[e];
  }
}

__device__ __forceinline__ double length_of(const PerHeadParams& p) {
  const double scale = p.scale == nullptr ? p.rope_scale : *p.scale;
  return p.divides_by_scale ? 1.0 / scale : scale;
}

/// The position of a token on every axis.
struct TokenAxes {
  double at[kMaxAxes];

  __device__ __forceinline__ TokenAxes(const PerHeadParams& p, std::int64_t b, std::int64_t t) {
#pragma unroll
    for (int a = 0; a < kMaxAxes; ++a) {
      at[a] = a < p.axes ? p.positions[a * p.axis_stride + b * p.batch_stride + t] : 0.0;
    }
  }
};

/// z of the pairs from `first` on of a frequency head.
template <typename C, int kPairs>
__device__ __forceinline__ Fragment<C, kPairs> factor(const PerHeadParams& p,
                                                      const TokenAxes& token, int head, int first,
                                                      C length) {
  Fragment<C, kPairs> z;
  const double* f = p.frequencies + (static_cast<std::int64_t>(head) * p.pairs + first) * p.axes;
#pragma unroll
  for (int i = 0; i < kPairs; ++i) {
    double phase = 0.0;
#pragma unroll
    for (int a = 0; a < kMaxAxes; ++a) {
      if (a < p.axes) phase += token.at[a] * f[i * p.axes + a];
    }
    C c;
    C s;
    cos_sin(p.sign * phase, &c, &s);
    z.x[i] = length * c;
    z.y[i] = length * s;
  }
  return z;
}

template <typename C, int kPairs>
__device__ __forceinline__ Fragment<C, kPairs> product(const Fragment<C, kPairs>& z,
                                                       const Fragment<C, kPairs>& v) {
  Fragment<C, kPairs> result;
#pragma unroll
  for (int i = 0; i < kPairs; ++i) {
    result.x[i] = z.x[i] * v.x[i] - z.y[i] * v.y[i];
    result.y[i] = z.x[i] * v.y[i] + z.y[i] * v.x[i];
  }
  return result;
}

/// One thread per token, frequency head and fragment, for some batch rows: [tokens][heads]
/// [fragments] by [chunks of batch rows].
template <typename T, int kPairs, bool kHalf>
__global__ void __launch_bounds__(kThreads)
    rotate_per_head_kernel(const __grid_constant__ PerHeadParams p) {
  using C = Accum<T>;
  const std::int64_t index = static_cast<std::int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  const int fragments = p.pairs / kPairs;
  const int fragment = static_cast<int>(index % fragments);
  const int head = static_cast<int>(index / fragments % p.heads);
  const std::int64_t t = index / fragments / p.heads;
  if (t >= p.tokens) return;
  const int first = fragment * kPairs;
  const auto length = static_cast<C>(length_of(p));
  const std::int64_t begin = blockIdx.y * kRowsPerThread;
  const std::int64_t end = begin + kRowsPerThread < p.batch ? begin + kRowsPerThread : p.batch;
  Fragment<C, kPairs> z;
  for (std::int64_t b = begin; b < end; ++b) {
    if (b == begin || p.batch_stride != 0) {
      z = factor<C, kPairs>(p, TokenAxes(p, b, t), head, first, length);
    }
    for (int k = 0; k < p.num_tensors; ++k) {
      const PerHeadTensor& x = p.tensors[k];
      for (int member = 0; member < x.group; ++member) {
        const std::int64_t h = static_cast<std::int64_t>(head) * x.group + member;
        const T* from = static_cast<const T*>(x.in) + b * x.in_strides[0] + t * x.in_strides[1] +
                        h * x.in_strides[2];
        T* to = static_cast<T*>(x.out) + b * x.out_strides[0] + t * x.out_strides[1] +
                h * x.out_strides[2];
        const auto v =
            load_pairs<T, kPairs, kHalf>(from + p.rotary_offset, p.pairs, first, p.reads_halves);
        store_pairs<T, kPairs, kHalf>(product(z, v), to + p.rotary_offset, p.pairs, first,
                                      p.writes_halves);
        copy_rest(p, from, to, fragment, fragments);
      }
    }
  }
}

/// One block per chunk of rows (tokens of all batch rows) and frequency head. Threads: [rows]
/// [fragments]. Each sums the gradients of its pairs in double; the block adds them in a fixed
/// order.
template <typename T, int kPairs, bool kHalf, int kAxes>
__global__ void __launch_bounds__(kPairs > 1 ? kThreads : 512)
    per_head_gradient_kernel(const __grid_constant__ PerHeadParams p) {
  using C = Accum<T>;
  extern __shared__ __align__(16) double shared_sums[];  // [rows, pairs, axes], then [threads]
  const int fragments = p.pairs / kPairs;
  const int rows = static_cast<int>(blockDim.x) / fragments;
  const int fragment = static_cast<int>(threadIdx.x) % fragments;
  const int lane_row = static_cast<int>(threadIdx.x) / fragments;
  const int first = fragment * kPairs;
  const int head = static_cast<int>(blockIdx.y);
  const auto length = static_cast<C>(length_of(p));
  const std::int64_t all_rows = p.batch * p.tokens;
  const std::int64_t begin = all_rows * blockIdx.x / p.chunks;
  const std::int64_t end = all_rows * (blockIdx.x + 1) / p.chunks;
  double sums[kPairs][kAxes] = {};
  double length_sum = 0.0;
  for (std::int64_t row = begin + lane_row; lane_row < rows && row < end; row += rows) {
    const std::int64_t b = row / p.tokens;
    const std::int64_t t = row % p.tokens;
    const TokenAxes token(p, b, t);
    Fragment<C, kPairs> z = factor<C, kPairs>(p, token, head, first, length);
#pragma unroll
    for (int i = 0; i < kPairs; ++i) z.y[i] = -z.y[i];
    C angle[kPairs] = {};
    C grown = 0;
    for (int k = 0; k < p.num_tensors; ++k) {
      const PerHeadTensor& x = p.tensors[k];
      for (int member = 0; member < x.group; ++member) {
        const std::int64_t h = static_cast<std::int64_t>(head) * x.group + member;
        const T* in = static_cast<const T*>(x.in) + b * x.in_strides[0] + t * x.in_strides[1] +
                      h * x.in_strides[2];
        const T* grad = static_cast<const T*>(x.grad) + b * x.grad_strides[0] +
                        t * x.grad_strides[1] + h * x.grad_strides[2];
        T* to = static_cast<T*>(x.out) + b * x.out_strides[0] + t * x.out_strides[1] +
                h * x.out_strides[2];
        const auto v =
            load_pairs<T, kPairs, kHalf>(in + p.rotary_offset, p.pairs, first, p.reads_halves);
        const auto g = product(z, load_pairs<T, kPairs, kHalf>(grad + p.rotary_offset, p.pairs,
                                                               first, p.writes_halves));
        store_pairs<T, kPairs, kHalf>(g, to + p.rotary_offset, p.pairs, first, p.reads_halves);
        copy_rest(p, grad, to, fragment, fragments);
#pragma unroll
        for (int i = 0; i < kPairs; ++i) {
          angle[i] += v.x[i] * g.y[i] - v.y[i] * g.x[i];
          grown += v.x[i] * g.x[i] + v.y[i] * g.y[i];
        }
      }
    }
#pragma unroll
    for (int a = 0; a < kAxes; ++a) {
#pragma unroll
      for (int i = 0; i < kPairs; ++i) {
        if (a < p.axes) sums[i][a] += token.at[a] * static_cast<double>(angle[i]);
      }
    }
    length_sum += static_cast<double>(grown);
  }

  const int entries = p.pairs * p.axes;
  double* const length_sums = shared_sums + rows * entries;
  length_sums[threadIdx.x] = length_sum;
  if (lane_row < rows) {
    for (int i = 0; i < kPairs; ++i) {
      for (int a = 0; a < kAxes; ++a) {
        if (a < p.axes) shared_sums[lane_row * entries + (first + i) * p.axes + a] = sums[i][a];
      }
    }
  }
  __syncthreads();
  const std::int64_t block = static_cast<std::int64_t>(blockIdx.x) * p.heads + head;
  for (int e = static_cast<int>(threadIdx.x); e < entries; e += static_cast<int>(blockDim.x)) {
    double sum = 0.0;
    for (int r = 0; r < rows; ++r) sum += shared_sums[r * entries + e];
    p.frequency_sums[block * entries + e] = p.sign * sum;
  }
  if (threadIdx.x == 0) {
    double sum = 0.0;
    for (unsigned i = 0; i < blockDim.x; ++i) sum += length_sums[i];
    p.length_sums[block] = p.divides_by_scale ? -sum : sum;
  }
}

template <typename T, int kPairs, bool kHalf>
int launch_forward(const PerHeadParams& p, cudaStream_t stream) {
  const std::int64_t threads = p.tokens * p.heads * (p.pairs / kPairs);
  const dim3 grid(static_cast<unsigned>((threads + kThreads - 1) / kThreads),
                  static_cast<unsigned>((p.batch + kRowsPerThread - 1) / kRowsPerThread));
  rotate_per_head_kernel<T, kPairs, kHalf><<<grid, kThreads, 0, stream>>>(p);
  return static_cast<int>(cudaGetLastError());
}

template <typename T, int kPairs, bool kHalf, int kAxes>
int launch_backward_axes(const PerHeadParams& p, cudaStream_t stream) {
  const int fragments = p.pairs / kPairs;
  const int threads = fragments <= kThreads ? kThreads : (fragments + 31) / 32 * 32;
  const std::size_t shared =
      static_cast<std::size_t>(threads / fragments * p.pairs * p.axes + threads) * sizeof(double);
  // At most 34 KB: kThreads * kPairs * axes sums, where kPairs is 8 at most.
  per_head_gradient_kernel<T, kPairs, kHalf, kAxes>
      <<<dim3(static_cast<unsigned>(p.chunks), static_cast<unsigned>(p.heads)),
         static_cast<unsigned>(threads), shared, stream>>>(p);
  return static_cast<int>(cudaGetLastError());
}

template <typename T, int kPairs, bool kHalf>
int launch_backward(const PerHeadParams& p, cudaStream_t stream) {
  if (p.axes == 1) return launch_backward_axes<T, kPairs, kHalf, 1>(p, stream);
  if (p.axes == 2) return launch_backward_axes<T, kPairs, kHalf, 2>(p, stream);
  return launch_backward_axes<T, kPairs, kHalf, kMaxAxes>(p, stream);
}

template <typename T, int kPairs, bool kHalf>
int launch(const PerHeadParams& p, bool backward, cudaStream_t stream) {
  return backward ? launch_backward<T, kPairs, kHalf>(p, stream)
                  : launch_forward<T, kPairs, kHalf>(p, stream);
}

template <typename T>
int launch_type(const PerHeadParams& p, bool backward, cudaStream_t stream) {
  constexpr int kPairs = 16 / static_cast<int>(sizeof(T));
  if (!p.vectorized || p.pairs / kPairs > kThreads) return launch<T, 1, true>(p, backward, stream);
  return p.reads_halves ? launch<T, kPairs, true>(p, backward, stream)
                        : launch<T, kPairs, false>(p, backward, stream);
}

int launch_any(const PerHeadParams& p, PerHeadType type, bool backward, void* stream) {
  auto* on = static_cast<cudaStream_t>(stream);
  switch (type) {
    case PerHeadType::kFloat:
      return launch_type<float>(p, backward, on);
    case PerHeadType::kDouble:
      return launch_type<double>(p, backward, on);
    case PerHeadType::kBFloat16:
      return launch_type<__nv_bfloat16>(p, backward, on);
    case PerHeadType::kFloat16:
      return launch_type<__half>(p, backward, on);
  }
  return static_cast<int>(cudaErrorInvalidValue);
}

}  // namespace

int launch_rotate_per_head(const PerHeadParams& params, PerHeadType type, void* stream) {
  return launch_any(params, type, /*backward=*/false, stream);
}

int launch_per_head_gradient(const PerHeadParams& params, PerHeadType type, void* stream) {
  return launch_any(params, type, /*backward=*/true, stream);
}

const char* per_head_error(int error) {
  return cudaGetErrorString(static_cast<cudaError_t>(error));
}

}  // namespace rotary::torch::cuda
