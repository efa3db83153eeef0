// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// The tuned gradient of an RMS norm of each head and the rotation after it, for whole heads of
// 16-byte packs with exact angles at integer positions. A block handles a share of the tokens of
// one operand. Lanes hold packs as in fused_vectorized.cuh; each thread adds the gradients of its
// weights over its tokens in registers, the block then over its threads, in a fixed order.
#pragma once

#include <cstdint>

#include "cuda/device/fused_vectorized.cuh"
#include "cuda/norm_gradient_vectorized.h"

namespace rotary::internal::cuda {

/// A token of the launch.
struct TokenOfRank {
  std::int32_t batch;
  std::int32_t token;

  __device__ __forceinline__ TokenOfRank(const NormGradientVectorizedParams& p,
                                         std::uint32_t rank) {
    const auto tokens = static_cast<std::uint32_t>(p.angles.tokens);
    const std::uint32_t row = p.batch == 1 ? 0u : rank / tokens;
    batch = static_cast<std::int32_t>(row);
    token = static_cast<std::int32_t>(rank - row * tokens);
  }
};

/// cos and sin of `tokens` tokens from `first` on, for the adjoint rotation.
template <class Head>
__device__ __forceinline__ void fill_gradient_rows(const NormGradientVectorizedParams& p,
                                                   std::uint32_t first, std::uint32_t tokens,
                                                   std::uint32_t last, float* rows) {
  const auto pairs = static_cast<std::uint32_t>(p.angles.pair_count);
  const std::uint32_t threads = blockDim.x * blockDim.y;
  for (std::uint32_t i = threadIdx.y * blockDim.x + threadIdx.x; i < tokens * pairs; i += threads) {
    const std::uint32_t row = i / pairs;
    if (first + row >= last) break;
    const std::uint32_t pair = i - row * pairs;
    const TokenOfRank at(p, first + row);
    PhaseInputs inputs{};
    inputs.fetch_frequency(p.angles, pair);
    inputs.fetch_position(p.angles.positions, at.token, at.batch);
    const CosSin<float> z = cos_sin_on_device<float>(inputs.phase(p.angles.positions, at.token));
    float* const to = rows + row * 2 * pairs +
                      Head::row_offset(pair, static_cast<std::uint32_t>(p.angles.fragments));
    to[0] = mul_rn(z.cos, p.angles.cos_magnitude);
    to[pairs] = mul_rn(z.sin, p.angles.sin_magnitude);
  }
}

/// What a thread loads for one head.
struct GradientPacks {
  Packed<16> x[2];
  Packed<16> g[2];
};

/// Block: [slots][lanes], whole warps; grid: [operands][slices].
template <class Element, Pairing kPairing>
__global__ void __launch_bounds__(kMaxNormGradientThreads, 2)
    norm_gradient_vectorized(const __grid_constant__ NormGradientVectorizedParams p) {
  using Head = LaneHead<Element, kPairing>;
  constexpr int kCount = Element::kPerPack;
  extern __shared__ __align__(16) float memory[];  // [2][row_tokens][cos, sin][pairs]
  if (p.angles.overlaps) launch_dependent_grids();
  const NormGradientTileOperand& o = p.operands[blockIdx.y];
  const auto lane = static_cast<std::int32_t>(threadIdx.x);
  const std::int32_t stride = p.angles.fragments;  // packs of half a head
  const auto lanes = static_cast<std::int32_t>(blockDim.x);
  const std::uint32_t pairs2 = 2u * static_cast<std::uint32_t>(p.angles.pair_count);
  const std::uint32_t tile_token = (threadIdx.y * o.group_factor) >> 16;
  const std::uint32_t group = threadIdx.y - tile_token * o.groups;
  const bool active = lane < stride && tile_token < o.tokens;
  const std::uint32_t begin =
      static_cast<std::uint32_t>(static_cast<std::uint64_t>(p.count) * blockIdx.x / p.slices);
  const std::uint32_t last =
      static_cast<std::uint32_t>(static_cast<std::uint64_t>(p.count) * (blockIdx.x + 1) / p.slices);
  wait_on_dependent_grids();

  Head weight{};
  if (lane < stride) {
    weight = load_lane_weights<Element, kPairing>(o.weight, o.has_float_weight, lane, stride,
                                                  p.adds_one);
  }
  Head sums{};
  const auto load = [&](std::uint32_t first, std::uint32_t pass, GradientPacks& to) {
    const std::uint32_t rank = first + tile_token;
    const auto head = static_cast<std::int32_t>(pass * o.groups + group);
    to = GradientPacks{};
    if (!active || rank >= last || head >= o.heads) return false;
    const TokenOfRank at(p, rank);
    const char* const x =
        pack_address(o.in, at.batch * o.in_batch + at.token * o.in_token + head * o.in_head + lane);
    const char* const g = pack_address(
        o.grad, at.batch * o.grad_batch + at.token * o.grad_token + head * o.grad_head + lane);
    to.x[0] = load_packed(x);
    to.x[1] = load_packed(x + stride * 16);
    to.g[0] = load_packed(g);
    to.g[1] = load_packed(g + stride * 16);
    return true;
  };

  GradientPacks packs;
  bool in_range = load(begin, 0, packs);
  std::uint32_t buffer = 0;
  for (std::uint32_t first_row = begin; first_row < last;
       first_row += o.row_tokens, buffer = 1 - buffer) {
    float* const rows = memory + buffer * o.row_tokens * pairs2;
    fill_gradient_rows<Head>(p, first_row, o.row_tokens, last, rows);
    __syncthreads();  // rows of the tile before are read by now, those before it are free
    const std::uint32_t end = last - first_row < o.row_tokens ? last : first_row + o.row_tokens;
    for (std::uint32_t first = first_row; first < end; first += o.tokens) {
      for (std::uint32_t pass = 0; pass < o.passes; ++pass) {
        const bool is_last_pass = pass + 1 == o.passes;
        GradientPacks next;
        const bool next_in_range =
            is_last_pass ? load(first + o.tokens, 0, next) : load(first, pass + 1, next);
        Head x;
        Head g;
        x.unpack(packs.x[0], packs.x[1]);
        g.unpack(packs.g[0], packs.g[1]);
        if (in_range) {
          const float* const row = rows + (first - first_row + tile_token) * pairs2;
          float c[kCount];
          float s[kCount];
          Head::read_row(row, threadIdx.x, static_cast<std::uint32_t>(stride), c);
          Head::read_row(row + pairs2 / 2, threadIdx.x, static_cast<std::uint32_t>(stride), s);
          g.rotate(c, s);
        }
        // With n = r x: dw = sum of g n; dx = r (g w - n mean(g w n)).
        float squares = 0.0f;
        float dot = 0.0f;
#pragma unroll
        for (int i = 0; i < kCount; ++i) {
          squares = __fmaf_rn(x.a[i], x.a[i], squares);
          squares = __fmaf_rn(x.b[i], x.b[i], squares);
          dot = __fmaf_rn(__fmul_rn(g.a[i], weight.a[i]), x.a[i], dot);
          dot = __fmaf_rn(__fmul_rn(g.b[i], weight.b[i]), x.b[i], dot);
        }
        for (std::int32_t step = lanes / 2; step > 0; step /= 2) {
          squares += __shfl_xor_sync(~0u, squares, step);
          dot += __shfl_xor_sync(~0u, dot, step);
        }
        const float scale = rsqrtf(__fmaf_rn(squares, p.reciprocal_size, p.eps));
        const float along = __fmul_rn(__fmul_rn(dot, p.reciprocal_size), __fmul_rn(scale, scale));
#pragma unroll
        for (int i = 0; i < kCount; ++i) {
          sums.a[i] = __fmaf_rn(g.a[i], __fmul_rn(x.a[i], scale), sums.a[i]);
          sums.b[i] = __fmaf_rn(g.b[i], __fmul_rn(x.b[i], scale), sums.b[i]);
          x.a[i] = __fmul_rn(scale, __fmaf_rn(-x.a[i], along, __fmul_rn(g.a[i], weight.a[i])));
          x.b[i] = __fmul_rn(scale, __fmaf_rn(-x.b[i], along, __fmul_rn(g.b[i], weight.b[i])));
        }
        if (in_range && o.out != nullptr) {
          const TokenOfRank at(p, first + tile_token);
          const auto head = static_cast<std::int32_t>(pass * o.groups + group);
          char* const to = pack_address(
              o.out, at.batch * o.out_batch + at.token * o.out_token + head * o.out_head + lane);
          store_packed(to, Element::pack(x.a));
          store_packed(to + stride * 16, Element::pack(x.b));
        }
        packs = next;
        in_range = next_in_range;
      }
    }
  }
  if (p.partial == nullptr) return;  // the same for all threads

  // [slots][head_dim], in the memory of the rows.
  __syncthreads();
  const std::int32_t head_dim = 2 * stride * kCount;
  if (lane < stride) {
    float* const own = memory + static_cast<std::int32_t>(threadIdx.y) * head_dim;
#pragma unroll
    for (int i = 0; i < kCount; ++i) {
      own[lane * kCount + i] = sums.a[i];
      own[(lane + stride) * kCount + i] = sums.b[i];
    }
  }
  __syncthreads();
  double* const to = p.partial + blockIdx.x * p.partial_size + o.partial_offset;
  const auto threads = static_cast<std::int32_t>(blockDim.x * blockDim.y);
  for (auto i = static_cast<std::int32_t>(threadIdx.y * blockDim.x + threadIdx.x); i < head_dim;
       i += threads) {
    double total = 0.0;
    for (std::uint32_t slot = 0; slot < blockDim.y; ++slot) {
      total += static_cast<double>(memory[static_cast<std::int32_t>(slot) * head_dim + i]);
    }
    to[i] = total;
  }
}

}  // namespace rotary::internal::cuda
