// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// Sums over the elements of a norm in the order of the CPU engine (cpu/norm_sums-inl.h), which is
// that of PyTorch's reductions on the CPU: four accumulators of `lanes` lanes in turn, put aside
// after every 16 rows in a cascade; then the four, the elements that fill no vector, and the lanes.
// Or in the order of PyTorch's norms on CUDA (sum_lanes 32): 128 columns, to which fours of
// consecutive elements are added in turn; the 32 columns of a warp as a binary tree with strides
// 16, 8, 4, 2 and 1; then the four warps. Compiles as host code too, for its test.
#pragma once

#include <cstdint>

#if defined(__CUDACC__)
#define ROTARY_HOST_DEVICE __host__ __device__ __forceinline__
#else
#define ROTARY_HOST_DEVICE inline
#endif

namespace rotary::internal::cuda {

/// Never contracted to a fused multiply-add.
ROTARY_HOST_DEVICE float add_rounded(float a, float b) {
#if defined(__CUDA_ARCH__)
  return __fadd_rn(a, b);
#else
  return a + b;
#endif
}
ROTARY_HOST_DEVICE float mul_rounded(float a, float b) {
#if defined(__CUDA_ARCH__)
  return __fmul_rn(a, b);
#else
  return a * b;
#endif
}

ROTARY_HOST_DEVICE float fma_rounded(float a, float b, float c) {
#if defined(__CUDA_ARCH__)
  return __fmaf_rn(a, b, c);
#else
  return __builtin_fmaf(a, b, c);
#endif
}

/// sum_lanes of the order of PyTorch's norms on CUDA.
inline constexpr std::int32_t kWarpSums = 32;

/// Neighbouring lanes of an accumulator.
struct TwoLanes {
  float x;
  float y;
};

ROTARY_HOST_DEVICE TwoLanes add_rounded(const TwoLanes& a, const TwoLanes& b) {
  return {add_rounded(a.x, b.x), add_rounded(a.y, b.y)};
}

// What an element adds to a sum; fused() rounds once.

struct AddValue {
  ROTARY_HOST_DEVICE float operator()(float sum, float x) const { return add_rounded(sum, x); }
  ROTARY_HOST_DEVICE float fused(float sum, float x) const { return add_rounded(sum, x); }
};
struct AddSquare {
  ROTARY_HOST_DEVICE float operator()(float sum, float x) const {
    return add_rounded(sum, mul_rounded(x, x));
  }
  ROTARY_HOST_DEVICE float fused(float sum, float x) const { return fma_rounded(x, x, sum); }
};
/// The square of the distance from the mean.
struct AddDeviation {
  float mean;
  ROTARY_HOST_DEVICE float operator()(float sum, float x) const {
    const float deviation = add_rounded(x, -mean);
    return add_rounded(sum, mul_rounded(deviation, deviation));
  }
  ROTARY_HOST_DEVICE float fused(float sum, float x) const {
    const float deviation = add_rounded(x, -mean);
    return fma_rounded(deviation, deviation, sum);
  }
};

template <class Add>
ROTARY_HOST_DEVICE float add_element(const Add& add, float sum, float x) {
  return add(sum, x);
}
template <class Add>
ROTARY_HOST_DEVICE TwoLanes add_element(const Add& add, const TwoLanes& sum, const TwoLanes& x) {
  return {add(sum.x, x.x), add(sum.y, x.y)};
}

/// How n elements are divided into rows of four vectors of `lanes`.
struct SumShape {
  ROTARY_HOST_DEVICE SumShape(std::int32_t n, std::int32_t sum_lanes)
      : size(n),
        lanes(n < sum_lanes ? 1 : sum_lanes),
        rows(n / (4 * lanes)),
        whole(n / lanes * lanes) {}
  std::int32_t size;
  std::int32_t lanes;
  std::int32_t rows;
  std::int32_t whole;  // elements in whole vectors
};

/// One accumulator (V: float) or two lanes of it: load(i) are its elements, i the first in a head.
/// `first`: of row 0.
template <class V, class Load, class Add>
ROTARY_HOST_DEVICE V sum_accumulator(const SumShape& shape, std::int32_t first, const Load& load,
                                     const Add& add) {
  constexpr std::int32_t kRowsTogether = 16;
  const std::int32_t stride = 4 * shape.lanes;
  const std::int32_t rows = shape.rows;
  V sums{};
  std::int32_t row = 0;
  if (rows >= kRowsTogether) {
    V levels[3]{};
    while (row + kRowsTogether <= rows) {
      V some{};
#if defined(__CUDA_ARCH__)
#pragma unroll 4
#endif
      for (std::int32_t i = 0; i < kRowsTogether; ++i) {
        some = add_element(add, some, load(first + (row + i) * stride));
      }
      row += kRowsTogether;
      levels[0] = add_rounded(levels[0], some);
      if (row % (kRowsTogether * kRowsTogether) != 0) continue;
      levels[1] = add_rounded(levels[1], levels[0]);
      levels[0] = V{};
      if (row % (kRowsTogether * kRowsTogether * kRowsTogether) != 0) continue;
      levels[2] = add_rounded(levels[2], levels[1]);
      levels[1] = V{};
    }
    for (; row < rows; ++row) sums = add_element(add, sums, load(first + row * stride));
    sums = add_rounded(add_rounded(add_rounded(sums, levels[0]), levels[1]), levels[2]);
  } else {
#if defined(__CUDA_ARCH__)
#pragma unroll 4
#endif
    for (; row < rows; ++row) sums = add_element(add, sums, load(first + row * stride));
  }
  // Vectors that fill no row go to the first accumulator.
  if (first < shape.lanes) {
    for (std::int32_t i = rows * stride + first; i < shape.whole; i += shape.lanes) {
      sums = add_element(add, sums, load(i));
    }
  }
  return sums;
}

/// The elements that fill no vector.
template <class Load, class Add>
ROTARY_HOST_DEVICE float sum_rest(const SumShape& shape, const Load& load, const Add& add) {
  float rest = 0.0f;
  for (std::int32_t i = shape.whole; i < shape.size; ++i) rest = add(rest, load(i));
  return rest;
}

/// The four accumulators of a lane.
template <class V>
ROTARY_HOST_DEVICE V sum_of_four(const V& s0, const V& s1, const V& s2, const V& s3) {
  return add_rounded(add_rounded(add_rounded(s0, s1), s2), s3);
}

/// The mean, 0 without has_mean, and the reciprocal of the root of variance or mean square.
struct Moments {
  float mean;
  float scale;
};

/// sum(add) is the sum over the elements of a norm. The reciprocal root is exact, or, in the order
/// kWarpSums, that of the device, as PyTorch's.
template <class Sum>
ROTARY_HOST_DEVICE Moments moments_of(bool has_mean, float eps, std::int32_t n,
                                      std::int32_t sum_lanes, const Sum& sum) {
  const auto size = static_cast<float>(n);
#if defined(__CUDA_ARCH__)
  const auto quotient = [](float a, float b) { return __fdiv_rn(a, b); };
  const auto reciprocal_root = [sum_lanes](float x) {
    return sum_lanes == kWarpSums ? rsqrtf(x) : __frcp_rn(__fsqrt_rn(x));
  };
#else
  static_cast<void>(sum_lanes);
  const auto quotient = [](float a, float b) { return a / b; };
  const auto reciprocal_root = [](float x) { return 1.0f / __builtin_sqrtf(x); };
#endif
  Moments moments{0.0f, 0.0f};
  float squares = 0.0f;
  if (has_mean) {
    moments.mean = quotient(sum(AddValue{}), size);
    squares = sum(AddDeviation{moments.mean});
  } else {
    squares = sum(AddSquare{});
  }
  moments.scale = reciprocal_root(add_rounded(quotient(squares, size), eps));
  return moments;
}

#if defined(__CUDACC__) || defined(ROTARY_EMULATES_CUDA)

/// Floats of shared memory that block_sum() uses: columns, or four accumulators of 16 lanes.
inline constexpr int kBlockSumFloats = 128;
inline constexpr std::int32_t kColumns = 128;

/// Column c of the order kWarpSums.
template <class Load, class Add>
__device__ __forceinline__ float sum_column(std::int32_t n, std::int32_t c, const Load& load,
                                            const Add& add) {
  float sum = 0.0f;
  for (std::int32_t first = 4 * c; first < n; first += 4 * kColumns) {
    for (std::int32_t i = first; i < first + 4 && i < n; ++i) sum = add.fused(sum, load(i));
  }
  return sum;
}

__device__ __forceinline__ float sum_of_warps(const float (&sums)[4]) {
  return add_rounded(add_rounded(sums[0], sums[2]), add_rounded(sums[1], sums[3]));
}

/// block_sum() in the order kWarpSums; blocks are whole warps.
template <class Load, class Add>
__device__ float block_sum_of_columns(std::int32_t n, const Load& load, const Add& add,
                                      float* scratch) {
  for (auto c = static_cast<std::int32_t>(threadIdx.x); c < kColumns;
       c += static_cast<std::int32_t>(blockDim.x)) {
    scratch[c] = sum_column(n, c, load, add);
  }
  __syncthreads();
  float sums[4];
  for (int warp = 0; warp < 4; ++warp) {
    sums[warp] = scratch[warp * 32 + static_cast<std::int32_t>(threadIdx.x % 32)];
    for (int step = 16; step > 0; step /= 2) {
      sums[warp] = add_rounded(sums[warp], __shfl_xor_sync(~0u, sums[warp], step));
    }
  }
  __syncthreads();
  return sum_of_warps(sums);
}

/// group_sum() in the order kWarpSums. `j`: of the thread among those of its head.
template <class Load, class Add>
__device__ __forceinline__ float group_sum_of_columns(std::int32_t n, std::int32_t group,
                                                      std::int32_t j, const Load& load,
                                                      const Add& add) {
  float sums[4] = {};
  for (int warp = 0; warp < 4; ++warp) {
    if (warp * 128 >= n) break;  // the same for all threads
    // Columns `group` apart, at most 8; those beyond the warp's are 0.
    float own[8];
#pragma unroll
    for (int i = 0; i < 8; ++i) {
      own[i] = i * group < 32 ? sum_column(n, warp * 32 + i * group + j, load, add) : 0.0f;
    }
#pragma unroll
    for (int half = 4; half > 0; half /= 2) {
#pragma unroll
      for (int i = 0; i < half; ++i) own[i] = add_rounded(own[i], own[i + half]);
    }
    for (std::int32_t step = group / 2; step > 0; step /= 2) {
      own[0] = add_rounded(own[0], __shfl_xor_sync(~0u, own[0], step));
    }
    sums[warp] = own[0];
  }
  return sum_of_warps(sums);
}

/// The sum of n elements, by the threads of a block, at least 64; load(i) gives element i. All
/// threads of the block call it and have the result.
template <class Load, class Add>
__device__ float block_sum(std::int32_t n, std::int32_t sum_lanes, const Load& load, const Add& add,
                           float* scratch) {
  if (sum_lanes == kWarpSums) return block_sum_of_columns(n, load, add, scratch);
  const SumShape shape(n, sum_lanes);
  const auto accumulator = static_cast<std::int32_t>(threadIdx.x);
  if (accumulator < 4 * shape.lanes) {
    scratch[accumulator] = sum_accumulator<float>(shape, accumulator, load, add);
  }
  __syncthreads();
  float sum = sum_rest(shape, load, add);
  for (std::int32_t k = 0; k < shape.lanes; ++k) {
    const float* const lane = scratch + k;
    sum = add_rounded(
        sum, sum_of_four(lane[0], lane[shape.lanes], lane[2 * shape.lanes], lane[3 * shape.lanes]));
  }
  __syncthreads();
  return sum;
}

/// The sum of n elements, by the `group` lanes of a warp that share a head: a power of two from 4
/// to 32. load(i) gives element i, load_two(i) elements i and i + 1 for even i; n >= 16. All lanes
/// of the warp call it; those of a group have the same result.
template <class Load, class LoadTwo, class Add>
__device__ __forceinline__ float group_sum(std::int32_t n, std::int32_t sum_lanes,
                                           std::int32_t group, const Load& load,
                                           const LoadTwo& load_two, const Add& add) {
  constexpr unsigned kAll = ~0u;
  const auto lane = static_cast<std::int32_t>((threadIdx.y * blockDim.x + threadIdx.x) &
                                              31u);  // blockDim.x divides 32
  const std::int32_t j = lane & (group - 1);
  if (sum_lanes == kWarpSums) return group_sum_of_columns(n, group, j, load, add);
  const SumShape shape(n, sum_lanes);
  const std::int32_t lane_pairs = shape.lanes / 2;
  const auto sum_pair = [&](std::int32_t accumulator, std::int32_t pair) {
    return sum_accumulator<TwoLanes>(shape, accumulator * shape.lanes + 2 * pair, load_two, add);
  };
  const auto from_lane = [&](const TwoLanes& v, std::int32_t source) {
    return TwoLanes{__shfl_sync(kAll, v.x, source), __shfl_sync(kAll, v.y, source)};
  };
  // Sums of the lanes 2p and 2p + 1: p of thread p, and p + group where threads are fewer.
  TwoLanes sums{};
  TwoLanes more{};
  if (group >= 4 * lane_pairs) {  // an accumulator per thread
    const std::int32_t part = j / lane_pairs;
    TwoLanes s{};
    if (part < 4) s = sum_pair(part, j % lane_pairs);
    sums = sum_of_four(s, from_lane(s, lane + lane_pairs), from_lane(s, lane + 2 * lane_pairs),
                       from_lane(s, lane + 3 * lane_pairs));
  } else if (group == 2 * lane_pairs) {  // two of them
    const std::int32_t part = j / lane_pairs;
    const TwoLanes s0 = sum_pair(2 * part, j % lane_pairs);
    const TwoLanes s1 = sum_pair(2 * part + 1, j % lane_pairs);
    sums = sum_of_four(s0, s1, from_lane(s0, lane + lane_pairs), from_lane(s1, lane + lane_pairs));
  } else {  // all four, and of several pairs of lanes where threads are fewer
    const auto all_four = [&](std::int32_t pair) {
      return sum_of_four(sum_pair(0, pair), sum_pair(1, pair), sum_pair(2, pair),
                         sum_pair(3, pair));
    };
    sums = all_four(j);
    if (group < lane_pairs) more = all_four(j + group);
  }
  float sum = sum_rest(shape, load, add);
  const std::int32_t base = lane - j;
  constexpr std::int32_t kTogether = 4;  // shuffles in flight
  for (std::int32_t first = 0; first < lane_pairs; first += kTogether) {
    const bool is_more = first >= group;
    TwoLanes two[kTogether];
#pragma unroll
    for (std::int32_t i = 0; i < kTogether; ++i) {
      two[i] = from_lane(is_more ? more : sums, base + (is_more ? first - group : first) + i);
    }
#pragma unroll
    for (std::int32_t i = 0; i < kTogether; ++i) {
      if (first + i < lane_pairs) sum = add_rounded(add_rounded(sum, two[i].x), two[i].y);
    }
  }
  return sum;
}

#endif

}  // namespace rotary::internal::cuda
