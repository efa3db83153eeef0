// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// The tuned gradient of an RMS norm of each head and the rotation after it, for what
// fused_tokens.cuh takes, with all of a head rotated. A block handles a share of the tokens, all
// heads of one token at a time; lanes hold packs as there. Sums of gradients of weights are those
// of norm_gradient.cuh.
#pragma once

#include <cstdint>

#include "cuda/device/fused_tokens.cuh"
#include "cuda/norm_gradient_params.h"

namespace rotary::internal::cuda {

/// Unit u of a pack.
template <class Element>
__device__ __forceinline__ void unit_of(const Packed<16>& pack, int u, float (&v)[kUnit<Element>]) {
  const std::uint32_t words[2] = {pack.words[2 * u], pack.words[2 * u + 1]};
  unpack_unit<Element>(words, v);
}

/// Block: [heads of all operands][lanes of a head], whole warps; grid: [slices of all tokens].
template <class Element, Pairing kPairing>
__global__ void __launch_bounds__(kMaxFusedTokenThreads, 2)
    norm_gradient_tokens(const __grid_constant__ NormGradientTokensParams p) {
  // [operands][head_dim] sums over tokens; then floats: [cos, sin][pairs], [operands][factors],
  // [heads][head_dim] products; then [heads][staged_bytes]
  extern __shared__ __align__(16) double totals[];
  constexpr int kPerPack = Element::kPerPack;
  constexpr int kCount = kUnit<Element>;
  constexpr bool kHalf = kPairing == Pairing::kHalf;
  if (p.overlaps) launch_dependent_grids();
  const auto lane = static_cast<std::int32_t>(threadIdx.x);
  const auto lanes = static_cast<std::int32_t>(blockDim.x);
  const auto head = static_cast<std::int32_t>(threadIdx.y);
  const std::int32_t thread = head * lanes + lane;
  const std::int32_t threads = lanes * static_cast<std::int32_t>(blockDim.y);
  int k = 0;
#pragma unroll
  for (int other = 1; other < kOperandsPerLaunch; ++other) {
    if (head >= p.first_head[other]) k = other;
  }
  const OperandParams& o = p.operands[k];
  const OperandParams& grad = p.grads[k];
  const std::int64_t own = head - p.first_head[k];
  const std::int32_t stride = p.pairs / kPerPack;
  const std::int32_t packs = 2 * stride;
  const bool active = head < p.num_heads && lane < stride;
  const std::int32_t tasks = p.num_operands * p.head_dim;
  float* const cos = reinterpret_cast<float*>(totals + tasks);
  float* const sin = cos + p.row_floats;
  float* const weights = sin + p.row_floats;
  float* const products = weights + p.num_operands * p.weight_floats;
  float* const own_products = products + head * p.head_dim;
  const float* const factors = weights + k * p.weight_floats;
  char* const staged =
      reinterpret_cast<char*>(products + blockDim.y * p.head_dim) + head * p.staged_bytes;
  for (std::int32_t i = thread; i < tasks; i += threads) totals[i] = 0.0;
  wait_on_dependent_grids();
  fill_weight_rows<Element>(p, 0, p.num_heads, weights);

  const std::int64_t count = p.batch * p.tokens;
  const std::int64_t slice = blockIdx.x;
  const std::int64_t last = count * (slice + 1) / p.slices;
  for (std::int64_t rank = count * slice / p.slices; rank < last; ++rank) {
    const std::int64_t batch = rank / p.tokens;
    const std::int64_t token = rank - batch * p.tokens;
    Packed<16> x[2]{};
    Packed<16> g[2]{};
    if (active) {
      const char* const from = static_cast<const char*>(o.in) + batch * o.in_batch +
                               token * o.in_token + own * o.in_head;
      const char* const grads = static_cast<const char*>(grad.in) + batch * grad.in_batch +
                                token * grad.in_token + own * grad.in_head;
      x[0] = load_packed(from + lane * 16);
      x[1] = load_packed(from + (lane + stride) * 16);
      g[0] = load_packed(grads + lane * 16);
      g[1] = load_packed(grads + (lane + stride) * 16);
    }
    __syncthreads();  // shared memory of the token before has been read
    fill_rotation_rows<Element, kPairing>(p, batch, token, stride, cos, sin);
    if (active) {
      *reinterpret_cast<Packed<16>*>(staged + lane * 16) = x[0];
      *reinterpret_cast<Packed<16>*>(staged + (lane + stride) * 16) = x[1];
    }
    __syncthreads();

    const StagedHead<Element> elements{staged};
    const Moments moments = moments_of(false, p.norm.eps, p.head_dim, [&](const auto& add) {
      return group_sum(
          p.head_dim, p.norm.sum_lanes, lanes, [&](std::int32_t i) { return elements.load(i); },
          [&](std::int32_t i) { return elements.load_two(i); }, add);
    });
    // Chunk c: unit c of both packs, or both units of pack c (LanePacks).
    float scaled[2][2][kCount];  // g w
    float mean = 0.0f;           // of g w n, before the division
    if (active) {
#pragma unroll
      for (int c = 0; c < 2; ++c) {
        float u[2][kCount];
        unit_of<Element>(g[kHalf ? 0 : c], kHalf ? c : 0, u[0]);
        unit_of<Element>(g[kHalf ? 1 : c], kHalf ? c : 1, u[1]);
        float z[kCount];
        float s[kCount];
        load_row_unit<Element>(cos, c * stride + lane, z);
        load_row_unit<Element>(sin, c * stride + lane, s);
        if constexpr (kHalf) {
#pragma unroll
          for (int i = 0; i < kCount; ++i) rotate_pair(u[0][i], u[1][i], z[i], s[i]);
        } else {
#pragma unroll
          for (int i = 0; i < kCount / 2; ++i) {
            rotate_pair(u[0][2 * i], u[0][2 * i + 1], z[i], s[i]);
            rotate_pair(u[1][2 * i], u[1][2 * i + 1], z[kCount / 2 + i], s[kCount / 2 + i]);
          }
        }
#pragma unroll
        for (int j = 0; j < 2; ++j) {
          const int side = kHalf ? j : c;  // which of the lane's packs
          const int unit = kHalf ? c : j;
          const std::int32_t pack = lane + side * stride;
          float n[kCount];
          float w[kCount];
          unit_of<Element>(x[side], unit, n);
          load_row_unit<Element>(factors, unit * packs + pack, w);
#pragma unroll
          for (int i = 0; i < kCount; ++i) {
            n[i] = mul_rounded(n[i], moments.scale);
            own_products[pack * kPerPack + unit * kCount + i] = mul_rounded(u[j][i], n[i]);
            scaled[c][j][i] = mul_rounded(u[j][i], w[i]);
            mean += scaled[c][j][i] * n[i];
          }
        }
      }
    }
    for (std::int32_t step = lanes / 2; step > 0; step /= 2) {
      mean += __shfl_xor_sync(~0u, mean, step);
    }
    mean = __fdiv_rn(mean, static_cast<float>(p.head_dim));
    if (active && o.out != nullptr) {
      Packed<16> result[2];
#pragma unroll
      for (int c = 0; c < 2; ++c) {
#pragma unroll
        for (int j = 0; j < 2; ++j) {
          const int side = kHalf ? j : c;
          const int unit = kHalf ? c : j;
          float n[kCount];
          unit_of<Element>(x[side], unit, n);
#pragma unroll
          for (int i = 0; i < kCount; ++i) {
            const float along = mul_rounded(mul_rounded(n[i], moments.scale), mean);
            n[i] = mul_rounded(moments.scale, add_rounded(scaled[c][j][i], -along));
          }
          std::uint32_t words[2];
          pack_unit<Element>(n, words);
          result[side].words[2 * unit] = words[0];
          result[side].words[2 * unit + 1] = words[1];
        }
      }
      char* const to =
          static_cast<char*>(o.out) + batch * o.out_batch + token * o.out_token + own * o.out_head;
      store_packed(to + lane * 16, result[0]);
      store_packed(to + (lane + stride) * 16, result[1]);
    }
    if (p.partial == nullptr) continue;  // the same for all threads
    __syncthreads();
    for (std::int32_t t = thread; t < tasks; t += threads) {
      const std::int32_t operand = t / p.head_dim;
      const float* const column = products + t - operand * p.head_dim;
      const std::int32_t end =
          operand + 1 < p.num_operands ? p.first_head[operand + 1] : p.num_heads;
      float sum = 0.0f;
      for (std::int32_t h = p.first_head[operand]; h < end; ++h) {
        sum = add_rounded(sum, column[h * p.head_dim]);
      }
      totals[t] += static_cast<double>(sum);
    }
  }
  if (p.partial == nullptr) return;
  double* const to = p.partial + slice * p.partial_size;
  for (std::int32_t t = thread; t < tasks; t += threads) {
    const std::int32_t operand = t / p.head_dim;
    to[p.partial_offset[operand] + t - operand * p.head_dim] = totals[t];
  }
}

}  // namespace rotary::internal::cuda
