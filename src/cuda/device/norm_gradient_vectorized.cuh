// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// The tuned gradient of an RMS norm of each head and the rotation after it, for whole heads of
// 16-byte packs with exact angles at integer positions. A block handles a share of one operand.
// Lanes hold packs as lane_head.cuh says; each thread adds the gradients of its weights over its
// steps in registers, the block then over its threads, in a fixed order.
#pragma once

#include <cstdint>

#include "cuda/device/grid_dependency.cuh"
#include "cuda/device/lane_head.cuh"
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

/// The packs of x and of the gradient that the lanes of a warp hold at once, copied to shared
/// memory kNormGradientStages steps ahead. Each thread copies and reads its own, and waits for no
/// others.
template <int kWarpHeads>
class GradientLoads {
 public:
  /// The steps from number `step` of the token `rank` on.
  __device__ __forceinline__ GradientLoads(const NormGradientVectorizedParams& p,
                                           const NormGradientTileOperand& o, Packed<16>* stages,
                                           std::uint32_t rank, std::int32_t step,
                                           std::int32_t token_steps, std::uint32_t count)
      : p_(p),
        o_(o),
        own_(stages + threadIdx.y * 32 + threadIdx.x),
        rank_(rank),
        token_steps_(token_steps),
        left_of_token_(token_steps - step),
        left_(count) {
    seek(step);
  }

  __device__ __forceinline__ void prefetch() const {
    if (left_ == 0 || !in_range()) return;
    prefetch_l2(x_);
    prefetch_l2(x_ + packs() * 16);
    prefetch_l2(g_);
    prefetch_l2(g_ + packs() * 16);
  }

  /// Copies the next step's packs, if there is one: always a group of copies.
  __device__ __forceinline__ void start(std::uint32_t stage) {
    if (left_ > 0) {
      --left_;
      if (in_range()) {
        copy_to_shared(at(stage, 0), x_);
        copy_to_shared(at(stage, 1), x_ + packs() * 16);
        copy_to_shared(at(stage, 2), g_);
        copy_to_shared(at(stage, 3), g_ + packs() * 16);
      }
      h_ += kWarpHeads;
      x_ += std::int64_t{o_.in_head} * (kWarpHeads * 16);
      g_ += std::int64_t{o_.grad_head} * (kWarpHeads * 16);
      if (--left_of_token_ == 0) {
        left_of_token_ = token_steps_;
        ++rank_;
        if (left_ > 0) seek(0);
      }
    }
    commit_copies();
  }

  /// Pack k of the oldest step: two of x, two of the gradient.
  __device__ __forceinline__ Packed<16> get(std::uint32_t stage, std::uint32_t k) const {
    return *at(stage, k);
  }

 private:
  __device__ __forceinline__ std::int32_t packs() const { return p_.angles.fragments; }
  __device__ __forceinline__ bool in_range() const { return lane() < packs() && h_ < o_.heads; }
  static __device__ __forceinline__ std::int32_t lane() {
    return static_cast<std::int32_t>(threadIdx.x % (32 / kWarpHeads));
  }
  __device__ __forceinline__ Packed<16>* at(std::uint32_t stage, std::uint32_t k) const {
    return own_ + (4 * stage + k) * kMaxNormGradientThreads;
  }
  __device__ __forceinline__ void seek(std::int32_t step) {
    const TokenOfRank token(p_, rank_);
    h_ = step * kWarpHeads + static_cast<std::int32_t>(threadIdx.x) / (32 / kWarpHeads);
    x_ = pack_address(
        o_.in, token.batch * o_.in_batch + token.token * o_.in_token + h_ * o_.in_head + lane());
    g_ = pack_address(o_.grad, token.batch * o_.grad_batch + token.token * o_.grad_token +
                                   h_ * o_.grad_head + lane());
  }

  const NormGradientVectorizedParams& p_;
  const NormGradientTileOperand& o_;
  Packed<16>* own_;
  std::uint32_t rank_;
  std::int32_t token_steps_;
  std::int32_t left_of_token_;
  std::uint32_t left_;
  std::int32_t h_ = 0;
  const char* x_ = nullptr;
  const char* g_ = nullptr;
};

/// Block: [warps][32]; grid: [slices][operands]. The steps of all tokens, a step the heads that the
/// lanes of a warp hold at once (kLanes lanes share a head), are divided evenly among all warps,
/// some of which begin or end within a token. Warps wait for one another only to add up gradients
/// of the weights.
template <class Element, Pairing kPairing, int kLanes, Angles kAngles>
__global__ void __launch_bounds__(kMaxNormGradientThreads, kNormGradientBlocks)
    norm_gradient_vectorized(const __grid_constant__ NormGradientVectorizedParams p) {
  using Head = LaneHead<Element, kPairing, kLanes>;
  constexpr int kCount = Element::kPerPack;
  constexpr std::int32_t kWarpHeads = 32 / kLanes;
  constexpr std::int32_t kRowFloats = 2 * kCount * kLanes;  // of a head with kLanes packs per half
  // [stages][4][threads] packs, weights, [warps][cos, sin]
  extern __shared__ __align__(16) float memory[];
  if (p.angles.overlaps) launch_dependent_grids();
  const NormGradientTileOperand& o = p.operands[blockIdx.y];
  const auto lane = static_cast<std::int32_t>(threadIdx.x % kLanes);
  const auto head_of_warp = static_cast<std::int32_t>(threadIdx.x / kLanes);
  const std::int32_t packs = p.angles.fragments;  // of half a head
  const auto pairs = static_cast<std::uint32_t>(p.angles.pair_count);
  const bool has_pack = lane < packs;
  const auto token_steps = static_cast<std::uint32_t>((o.heads + kWarpHeads - 1) / kWarpHeads);
  const std::uint64_t steps = std::uint64_t{p.count} * token_steps;
  const std::uint64_t warps = std::uint64_t{p.slices} * blockDim.y;
  const std::uint64_t warp = std::uint64_t{blockIdx.x} * blockDim.y + threadIdx.y;
  const std::uint64_t begin = steps * warp / warps;
  auto left = static_cast<std::uint32_t>(steps * (warp + 1) / warps - begin);
  WarpRow<Head, kAngles> row_inputs;
  row_inputs.fetch_frequencies(p, pairs);
  float* const weights = memory + kNormGradientStageFloats;
  float* const row = weights + (1 + threadIdx.y) * kRowFloats;
  auto rank = static_cast<std::uint32_t>(begin / token_steps);
  auto first_step = static_cast<std::int32_t>(begin - std::uint64_t{rank} * token_steps);
  GradientLoads<kWarpHeads> loads(p, o, reinterpret_cast<Packed<16>*>(memory), rank, first_step,
                                  static_cast<std::int32_t>(token_steps), left);
  if (p.angles.overlaps) loads.prefetch();
  wait_on_dependent_grids();

#pragma unroll
  for (std::uint32_t i = 0; i < kNormGradientStages; ++i) loads.start(i);
  if (threadIdx.y == 0) {
    WarpWeights<Head> fetched(o.weight, o.has_float_weight, packs);
    fetched.fetch();
    fetched.store(p.adds_one, weights);
  }
  __syncthreads();
  const auto fetch_row = [&](const TokenOfRank& of) {
    row_inputs.fetch_positions(p, of.batch, of.token, pairs);
  };
  if (kAngles == Angles::kTable && left > 0) fetch_row(TokenOfRank(p, rank));
  Head sums{};
  const std::int64_t out_stride = std::int64_t{o.out_head} * (kWarpHeads * 16);
  std::uint32_t stage = 0;
#pragma unroll 1
  for (; left > 0; ++rank, first_step = 0) {
    const TokenOfRank at(p, rank);
    if (kAngles != Angles::kTable) fetch_row(at);
    std::int32_t h = first_step * kWarpHeads + head_of_warp;
    char* to = pack_address(
        o.out, at.batch * o.out_batch + at.token * o.out_token + h * o.out_head + lane);
    std::uint32_t todo = token_steps - static_cast<std::uint32_t>(first_step);
    if (todo > left) todo = left;
    left -= todo;
    __syncwarp();  // the row of the token before has been read
    row_inputs.compute(p, at.token, pairs, static_cast<std::uint32_t>(packs), row);
    __syncwarp();
    // Entries of a table are on their way during the steps of the token before.
    if (kAngles == Angles::kTable && left > 0) fetch_row(TokenOfRank(p, rank + 1));
#pragma unroll 1
    for (; todo > 0; --todo) {
      const bool in_range = has_pack && h < o.heads;
      wait_for_copies<kNormGradientStages - 1>();
      Packed<16> x_packs[2] = {};
      Packed<16> g_packs[2] = {};
      if (in_range) {
        x_packs[0] = loads.get(stage, 0);
        x_packs[1] = loads.get(stage, 1);
        g_packs[0] = loads.get(stage, 2);
        g_packs[1] = loads.get(stage, 3);
      }
      loads.start(stage);
      if (++stage == kNormGradientStages) stage = 0;
      Head x;
      Head g;
      x.unpack(x_packs[0], x_packs[1]);
      g.unpack(g_packs[0], g_packs[1]);
      g.rotate(row, lane);
      // With n = r x: dw = sum of g n; dx = r (g w - n mean(g w n)).
      Head gw = g;
      gw.multiply(weights, lane);
      float squares = 0.0f;
      float dot = 0.0f;
#pragma unroll
      for (int i = 0; i < kCount; ++i) {
        squares = __fmaf_rn(x.a[i], x.a[i], squares);
        squares = __fmaf_rn(x.b[i], x.b[i], squares);
        dot = __fmaf_rn(gw.a[i], x.a[i], dot);
        dot = __fmaf_rn(gw.b[i], x.b[i], dot);
      }
      if (!has_pack) squares = dot = 0.0f;  // idle lanes read uninitialised cos, sin and weights
#pragma unroll
      for (std::int32_t step = kLanes / 2; step > 0; step /= 2) {
        squares += __shfl_xor_sync(~0u, squares, step);
        dot += __shfl_xor_sync(~0u, dot, step);
      }
      // 0 for heads that are not there: with an eps of 0 their root would be infinite.
      const float scale = in_range ? rsqrtf(__fmaf_rn(squares, p.reciprocal_size, p.eps)) : 0.0f;
      const float along = __fmul_rn(__fmul_rn(dot, p.reciprocal_size), __fmul_rn(scale, scale));
#pragma unroll
      for (int i = 0; i < kCount; ++i) {
        sums.a[i] = __fmaf_rn(g.a[i], __fmul_rn(x.a[i], scale), sums.a[i]);
        sums.b[i] = __fmaf_rn(g.b[i], __fmul_rn(x.b[i], scale), sums.b[i]);
        x.a[i] = __fmul_rn(scale, __fmaf_rn(-x.a[i], along, gw.a[i]));
        x.b[i] = __fmul_rn(scale, __fmaf_rn(-x.b[i], along, gw.b[i]));
      }
      if (in_range && o.out != nullptr) {
        store_packed(to, Element::pack(x.a));
        store_packed(to + packs * 16, Element::pack(x.b));
      }
      h += kWarpHeads;
      to += out_stride;
    }
  }
  if (p.partial == nullptr) return;  // the same for all threads

  // [warps][heads of a warp][head_dim], in the memory of weights and rows.
  __syncthreads();
  const std::int32_t head_dim = 2 * packs * kCount;
  if (has_pack) {
    float* const own =
        weights + (static_cast<std::int32_t>(threadIdx.y) * kWarpHeads + head_of_warp) * head_dim;
#pragma unroll
    for (int i = 0; i < kCount; ++i) {
      own[lane * kCount + i] = sums.a[i];
      own[(lane + packs) * kCount + i] = sums.b[i];
    }
  }
  __syncthreads();
  double* const to = p.partial + blockIdx.x * p.partial_size + o.partial_offset;
  const auto threads = static_cast<std::int32_t>(32 * blockDim.y);
  const auto rows = static_cast<std::int32_t>(blockDim.y) * kWarpHeads;
  for (auto i = static_cast<std::int32_t>(threadIdx.y * 32 + threadIdx.x); i < head_dim;
       i += threads) {
    double total = 0.0;
    for (std::int32_t k = 0; k < rows; ++k) total += static_cast<double>(weights[k * head_dim + i]);
    to[i] = total;
  }
}

}  // namespace rotary::internal::cuda
