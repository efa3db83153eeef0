// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// The gradient of a norm and the rotation after it (formulas: cpu/norm_gradient.cc), for heads of
// any strides and pairings. A block handles a share of the tokens of one operand, norm by norm.
// Gradients of weights are summed over the heads of a token in float32, in order, then over tokens
// in float64, which rarely rounds: nearly always the bits of the CPU engine.
#pragma once

#include <cstdint>

#include "cuda/device/cos_sin.cuh"
#include "cuda/device/fused_heads.cuh"
#include "cuda/device/grid_dependency.cuh"
#include "cuda/device/norm_sums.cuh"
#include "cuda/device/rotation_row.cuh"
#include "cuda/norm_gradient_params.h"

namespace rotary::internal::cuda {

inline constexpr int kNormGradientThreads = 128;

/// Sums of two values over the block, in a fixed order. All threads call it and have the result.
__device__ inline TwoLanes block_sum_of_two(TwoLanes v, float* scratch) {
  for (int step = 16; step > 0; step /= 2) {
    v.x += __shfl_xor_sync(~0u, v.x, step);
    v.y += __shfl_xor_sync(~0u, v.y, step);
  }
  const auto warp = static_cast<int>(threadIdx.x) / 32;
  if (threadIdx.x % 32 == 0) {
    scratch[2 * warp] = v.x;
    scratch[2 * warp + 1] = v.y;
  }
  __syncthreads();
  TwoLanes sum{0.0f, 0.0f};
  for (int w = 0; w < static_cast<int>(blockDim.x) / 32; ++w) {
    sum.x += scratch[2 * w];
    sum.y += scratch[2 * w + 1];
  }
  __syncthreads();
  return sum;
}

/// Of one operand: the elements of a norm, of `heads` heads from `first` on, at one token.
template <class Element, class Params>
struct NormGradientGroup {
  const Params& p;
  const OperandParams& o;
  const OperandParams& g;
  const FusedOperand& f;
  std::int64_t batch;
  std::int64_t token;
  std::int32_t first;

  __device__ float load(const void* base, std::int64_t batch_stride, std::int64_t token_stride,
                        std::int64_t head_stride, std::int64_t element_stride, std::int32_t h,
                        std::int32_t i) const {
    const char* const at = static_cast<const char*>(base) + batch * batch_stride +
                           token * token_stride + (first + h) * head_stride + i * element_stride;
    return Element::load(*reinterpret_cast<const typename Element::Storage*>(at));
  }
  __device__ float grad(std::int32_t h, std::int32_t i) const {
    return load(g.in, g.in_batch, g.in_token, g.in_head, g.in_element, h, i);
  }
  /// Element i of the norm.
  __device__ float input(std::int32_t i) const {
    const std::int32_t h = i / f.head_dim;
    return load(o.in, o.in_batch, o.in_token, o.in_head, o.in_element, h, i - h * f.head_dim);
  }
  __device__ float factor(std::int32_t i) const {
    if (f.weight == nullptr) return 1.0f;
    const float w = load_weight(f.weight, f.weight_type, i);
    return p.norm.adds_one ? add_rounded(1.0f, w) : w;
  }
  __device__ void write(std::int32_t i, float value) const {
    const std::int32_t h = i / f.head_dim;
    char* const to = static_cast<char*>(o.out) + batch * o.out_batch + token * o.out_token +
                     (first + h) * o.out_head + (i - h * f.head_dim) * o.out_element;
    *reinterpret_cast<typename Element::Storage*>(to) = Element::store(value);
  }

  /// The gradient of the norm's result, rotated back: [heads, head_dim].
  __device__ void rotate_back(std::int32_t heads, const float* cos, const float* sin,
                              float* to) const {
    const auto thread = static_cast<std::int32_t>(threadIdx.x);
    const auto threads = static_cast<std::int32_t>(blockDim.x);
    const std::int32_t rest = f.head_dim - 2 * p.pairs;
    for (std::int32_t i = thread; i < heads * p.pairs; i += threads) {
      const std::int32_t h = i / p.pairs;
      const std::int32_t pair = i - h * p.pairs;
      const PairOffsets from = offsets_of(p.read, p.rotary_offset, p.pairs, pair);
      const PairOffsets into = offsets_of(p.write, p.rotary_offset, p.pairs, pair);
      float x = grad(h, from.first);
      float y = grad(h, from.second);
      rotate_pair(x, y, cos[pair], sin[pair]);
      to[h * f.head_dim + into.first] = x;
      to[h * f.head_dim + into.second] = y;
    }
    for (std::int32_t i = thread; i < heads * rest; i += threads) {
      const std::int32_t h = i / rest;
      const std::int32_t e = i - h * rest;
      const std::int32_t at = e < p.rotary_offset ? e : e + 2 * p.pairs;
      to[h * f.head_dim + at] = grad(h, at);
    }
  }
};

/// Block: kNormGradientThreads. Grid: [operands][slices of all tokens].
template <class Element, class Params>
__global__ void __launch_bounds__(kNormGradientThreads)
    norm_gradient_heads(const __grid_constant__ Params p) {
  // [size] sums over tokens, twice with biases; [cos, sin][pairs]; scratch; [size] gradient; [size]
  // sums over heads, twice with biases
  extern __shared__ __align__(16) double totals[];
  if (p.overlaps) launch_dependent_grids();
  const auto thread = static_cast<std::int32_t>(threadIdx.x);
  constexpr std::int32_t kThreads = kNormGradientThreads;
  const int k = static_cast<int>(blockIdx.y);
  const FusedOperand& f = p.fused[k];
  const std::int32_t heads =
      (k + 1 < p.num_operands ? p.first_head[k + 1] : p.num_heads) - p.first_head[k];
  const std::int32_t together = p.norm.across_heads ? heads : 1;
  const std::int32_t size = together * f.head_dim;  // of a norm, and of a weight
  const std::int32_t sums_size = p.has_biases ? 2 * size : size;
  const auto row_size = static_cast<std::int32_t>(padded_pairs(p.pair_count));
  float* const cos = reinterpret_cast<float*>(totals + sums_size);
  float* const sin = cos + row_size;
  float* const scratch = sin + row_size;
  float* const g = scratch + kBlockSumFloats;
  float* const sums = g + size;
  for (std::int32_t i = thread; i < sums_size; i += kThreads) totals[i] = 0.0;
  wait_on_dependent_grids();

  // An element i of sums and totals always belongs to the same thread.
  const std::int64_t count = p.batch * p.tokens;
  const std::int64_t slice = blockIdx.x;
  const std::int64_t last = count * (slice + 1) / p.slices;
  for (std::int64_t rank = count * slice / p.slices; rank < last; ++rank) {
    NormGradientGroup<Element, Params> group{
        p, p.operands[k], p.grads[k], f, rank / p.tokens, rank % p.tokens, 0};
    for (std::int32_t i = thread; i < p.pair_count; i += kThreads) {
      const CosSin<float> z = cos_sin_of<float>(p, group.batch, group.token, i);
      cos[i] = z.cos;
      sin[i] = z.sin;
    }
    for (std::int32_t i = thread; i < sums_size; i += kThreads) sums[i] = 0.0f;
    __syncthreads();
    for (; group.first < heads; group.first += together) {
      group.rotate_back(together, cos, sin, g);
      const Moments moments =
          moments_of(p.norm.has_mean, p.norm.eps, size, p.norm.sum_lanes, [&](const auto& add) {
            return block_sum(
                size, p.norm.sum_lanes, [&](std::int32_t i) { return group.input(i); }, add,
                scratch);
          });
      const auto normalized = [&](std::int32_t i) {
        return mul_rounded(add_rounded(group.input(i), -moments.mean), moments.scale);
      };
      TwoLanes means{0.0f, 0.0f};  // of g w and of g w n, before the division
      for (std::int32_t i = thread; i < size; i += kThreads) {
        const float n = normalized(i);
        const float scaled = mul_rounded(g[i], group.factor(i));
        sums[i] = add_rounded(sums[i], mul_rounded(g[i], n));
        if (p.has_biases) sums[size + i] = add_rounded(sums[size + i], g[i]);
        means = {means.x + scaled, means.y + scaled * n};
      }
      if (p.operands[k].out != nullptr) {
        means = block_sum_of_two(means, scratch);
        means.x = p.norm.has_mean ? __fdiv_rn(means.x, static_cast<float>(size)) : 0.0f;
        means.y = __fdiv_rn(means.y, static_cast<float>(size));
        for (std::int32_t i = thread; i < size; i += kThreads) {
          const float scaled = mul_rounded(g[i], group.factor(i));
          const float along = mul_rounded(normalized(i), means.y);
          const float rest = add_rounded(add_rounded(scaled, -means.x), -along);
          group.write(i, mul_rounded(moments.scale, rest));
        }
      }
      __syncthreads();  // before g is written again
    }
    for (std::int32_t i = thread; i < sums_size; i += kThreads) {
      totals[i] += static_cast<double>(sums[i]);
    }
  }
  if (p.partial == nullptr) return;
  double* const to = p.partial + slice * p.partial_size + p.partial_offset[k];
  for (std::int32_t i = thread; i < sums_size; i += kThreads) to[i] = totals[i];
}

}  // namespace rotary::internal::cuda
