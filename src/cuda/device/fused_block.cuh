// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// fused_vectorized for decoding steps and launches of some ten microseconds, where ramp-up and tail
// dominate: a block handles heads of one token, each thread the same part of kHeads of them,
// without loops, and computes all addresses before wait_on_dependent_grids(). For decoding steps
// lanes hold packs of four elements: twice the warps, each with half of the latency.
#pragma once

#include <cstdint>

#include "cuda/device/fused_vectorized.cuh"
#include "cuda/device/token_phase.cuh"

namespace rotary::internal::cuda {

/// Where threads find the norm's weights. In trials (docs/fused.md) one warp that reads them for
/// its block was faster with hundreds of blocks, which read them at the same moment and presumably
/// wait for one another, and with a store; registers were faster with few blocks.
enum class WeightsIn : std::uint8_t {
  kRegisters,  // of every thread: weights of the elements' type
  kShared,     // read by one warp for each operand
};

/// kHelpers warps of a block (0 or 2) have no heads: they compute cos and sin and fetch weights,
/// while the others find their norms.
template <int kElements, int kHeadsOfThread, WeightsIn kWhere, int kHelperWarps, int kThreadLimit,
          int kBlocksPerSm>
struct FusedBlockConfig {
  static constexpr int kCount = kElements;  // of a pack
  static constexpr int kHeads = kHeadsOfThread;
  static constexpr WeightsIn kWeights = kWhere;
  static constexpr int kHelpers = kHelperWarps;
  static constexpr int kMaxThreads = kThreadLimit;
  static constexpr int kMinBlocks = kBlocksPerSm;
};

/// Where weights are shared, these are all operands: q and k.
inline constexpr std::int32_t kSharedWeights = 2;

/// Shared memory: cos and sin of the token, and where they are shared the weights.
template <class Head, class Config>
inline constexpr std::uint32_t kFusedBlockBytes =
    2 * Head::kCount * Head::kLanes * sizeof(float) *
    (Config::kWeights == WeightsIn::kShared ? 1 + kSharedWeights : 1);

/// A head of a thread: where it is, and what was loaded of it.
template <class Head>
struct BlockHead {
  std::int32_t operand;
  std::int32_t h;
  bool in_range;
  const char* from;
  char* to;
  typename Head::Pack data[2];
  typename Head::Pack weights[2];

  /// Steps after the last one are of the last of kOperands operands, and out of range.
  template <std::int32_t kOperands>
  __device__ __forceinline__ void locate(const FusedVectorizedParams& p, std::int32_t step,
                                         std::int32_t lane, bool has_heads) {
    constexpr std::int32_t kPackBytes = sizeof(typename Head::Pack);
    static_assert(kOperands == 2 || kOperands == 3);
    operand = step < p.operands[0].end_step ? 0 : 1;
    if (kOperands == 3 && step >= p.operands[1].end_step) operand = 2;
    const FusedTileOperand& o = p.operands[operand];
    h = (step - o.first_step) * (32 / Head::kLanes) +
        static_cast<std::int32_t>(threadIdx.x / Head::kLanes);
    in_range = has_heads && h < o.heads;
    const auto token = static_cast<std::int32_t>(blockIdx.x);
    const auto batch = static_cast<std::int32_t>(blockIdx.y);
    from = pack_address(o.in, batch * o.in_batch + token * o.in_token + h * o.in_head) +
           lane * kPackBytes;
    to = pack_address(o.out, batch * o.out_batch + token * o.out_token + h * o.out_head) +
         lane * kPackBytes;
  }
  /// Of the threads on a cache line, only the first does.
  __device__ __forceinline__ void prefetch() const {
    constexpr std::uintptr_t kPackBytes = sizeof(typename Head::Pack);
    if (!in_range || (reinterpret_cast<std::uintptr_t>(from) & 127) >= kPackBytes) return;
    prefetch_l2(from);
    prefetch_l2(from + Head::kLanes * kPackBytes);
  }
  __device__ __forceinline__ void load() {
    data[0] = data[1] = typename Head::Pack{};
    if (!in_range) return;
    load_pack(from, data[0]);
    load_pack(from + Head::kLanes * sizeof(typename Head::Pack), data[1]);
  }
  __device__ __forceinline__ void load_weights(const void* from_weight, std::int32_t lane) {
    constexpr std::int32_t kPackBytes = sizeof(typename Head::Pack);
    if (from_weight == nullptr) return;
    const char* const weight = static_cast<const char*>(from_weight) + lane * kPackBytes;
    load_pack(weight, weights[0]);
    load_pack(weight + Head::kLanes * kPackBytes, weights[1]);
  }
  __device__ __forceinline__ void multiply_by_weights(bool adds_one, Head& head) const {
    Head w;
    w.unpack(weights[0], weights[1]);
#pragma unroll
    for (int i = 0; i < Head::kCount; ++i) {
      head.a[i] = __fmul_rn(head.a[i], adds_one ? __fadd_rn(1.0f, w.a[i]) : w.a[i]);
      head.b[i] = __fmul_rn(head.b[i], adds_one ? __fadd_rn(1.0f, w.b[i]) : w.b[i]);
    }
  }
};

/// Block: [warps][32], the last Config::kHelpers of them without heads; grid: [tokens][batch][parts
/// of a token's heads].
template <class Element, Pairing kPairing, int kLanes, Stores kStored, class Config>
__global__ void __launch_bounds__(Config::kMaxThreads, Config::kMinBlocks)
    fused_block(const __grid_constant__ FusedVectorizedParams p) {
  using Head = LaneHead<Element, kPairing, kLanes, Config::kCount>;
  constexpr int kHeads = Config::kHeads;
  constexpr std::int32_t kHelpers = Config::kHelpers;
  constexpr bool kShared = Config::kWeights == WeightsIn::kShared;
  constexpr bool kStores = kStored != Stores::kNone;
  constexpr std::int32_t kOperands =
      kShared && !kStores ? kSharedWeights : kFusedVectorizedOperands;
  constexpr std::uint32_t kPairs = Head::kCount * kLanes;
  constexpr std::int32_t kHeadDim = 2 * kPairs;
  extern __shared__ __align__(16) float memory[];  // cos, sin, then weights of the operands
  if (p.angles.overlaps) launch_dependent_grids();
  const auto lane = static_cast<std::int32_t>(threadIdx.x % kLanes);
  const auto warp = static_cast<std::int32_t>(threadIdx.y);
  const std::int32_t warps = static_cast<std::int32_t>(blockDim.y) - kHelpers;
  const bool has_heads = kHelpers == 0 || warp < warps;
  const std::int32_t first_step = static_cast<std::int32_t>(blockIdx.z) * warps * kHeads;
  const bool rotates = first_step < p.rotated_steps;
  float* const row = memory;
  BlockHead<Head> own[kHeads];
#pragma unroll
  for (int j = 0; j < kHeads; ++j) {
    own[j].template locate<kOperands>(p, first_step + j * warps + warp, lane, has_heads);
    touch_parameters<kStores>(p, p.operands[own[j].operand]);
    touch(own[j].from);
    touch(own[j].to);
  }
  // The operand whose weights this warp fetches, read here, as parameters are: -1, none.
  const auto is_fetched = [&](std::int32_t k) {
    const FusedTileOperand& o = p.operands[k];
    return o.end_step > first_step && o.first_step < first_step + warps * kHeads && o.normalizes;
  };
  const std::int32_t fetching_warp = kHelpers > 0 ? warp - warps : warps - 1 - warp;
  const std::int32_t fetched_operand =
      kShared && fetching_warp >= 0 && fetching_warp < kSharedWeights && is_fetched(fetching_warp)
          ? fetching_warp
          : -1;
  const FusedTileOperand& fetched_from = p.operands[fetched_operand < 0 ? 0 : fetched_operand];
  const void* weight = fetched_from.weight;
  materialize(weight);
  WarpWeights<Head> weights(weight, fetched_from.has_float_weight, kLanes);
  // The pairs of this thread: i and on, as many apart as threads compute them.
  const std::uint32_t pair_threads = 32 * (kHelpers > 0 ? kHelpers : blockDim.y);
  std::uint32_t i =
      32 * static_cast<std::uint32_t>(kHelpers > 0 ? warp - warps : warp) + threadIdx.x;
  TokenPhase phase;
  if (rotates && i < kPairs) phase.prepare(p.angles, i);
  phase.materialize_address();
  if (is_prefetching_block(p.angles.prefetch_blocks)) {
#pragma unroll
    for (const BlockHead<Head>& head : own) head.prefetch();
  }
  wait_on_dependent_grids();

  phase.fetch(p.angles.positions);
#pragma unroll
  for (BlockHead<Head>& head : own) head.load();
  if (fetched_operand >= 0) weights.fetch();
  if constexpr (!kShared) {
#pragma unroll
    for (BlockHead<Head>& head : own) {
      const FusedTileOperand& o = p.operands[head.operand];
      if (!kStores || o.normalizes) head.load_weights(o.weight, lane);
    }
  }
  std::int64_t slot = 0;
  if constexpr (kStores) {
    slot = slot_of(p.slots, static_cast<std::int32_t>(blockIdx.y),
                   static_cast<std::int32_t>(blockIdx.x));
  }
  if (rotates) {
    while (i < kPairs) {
      const CosSin<float> z = cos_sin_on_device<float>(phase.get(p.angles.positions));
      const std::uint32_t at = Head::row_offset(i);
      row[at] = mul_rn(z.cos, p.angles.cos_magnitude);
      row[kPairs + at] = mul_rn(z.sin, p.angles.sin_magnitude);
      i += pair_threads;
      if (i >= kPairs) break;
      phase.prepare(p.angles, i);
      phase.fetch(p.angles.positions);
    }
  }
  if (fetched_operand >= 0) {
    weights.store(p.adds_one, memory + (1 + fetched_operand) * kHeadDim);
  }
  if constexpr (kShared && kHelpers == 0) {
    if (warps == 1 && is_fetched(1)) {  // heads of both operands in one warp
      WarpWeights<Head> others(p.operands[1].weight, p.operands[1].has_float_weight, kLanes);
      others.fetch();
      others.store(p.adds_one, memory + 2 * kHeadDim);
    }
  }

  const auto scale = [&](const BlockHead<Head>& of, Head& head) {
    head.unpack(of.data[0], of.data[1]);
    if (!kStores || p.operands[of.operand].normalizes) head.multiply(head.scale(p.eps));
  };
  const auto finish = [&](const BlockHead<Head>& of, Head& head) {
    const FusedTileOperand& o = p.operands[of.operand];
    if (!kStores || o.normalizes) {
      if constexpr (kShared) {
        head.multiply(memory + (1 + of.operand) * kHeadDim, lane);
      } else if (o.weight != nullptr) {
        of.multiply_by_weights(p.adds_one, head);
      }
      if (p.rounds_between) head.round();
    }
    if (!kStores || o.rotates) head.rotate(row, lane);
    if (of.in_range) store_head<Head, kStored>(p, o, head, of.h, lane, slot, of.to);
  };
  if constexpr (kHeads == 1) {  // the norm, while other warps compute cos and sin
    Head head;
    if (has_heads) scale(own[0], head);
    __syncthreads();
    if (has_heads) finish(own[0], head);
  } else {
    __syncthreads();
#pragma unroll
    for (const BlockHead<Head>& of : own) {
      Head head;
      scale(of, head);
      finish(of, head);
    }
  }
}

}  // namespace rotary::internal::cuda
