// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// The fastest fused kernel: norm, rotation and store of whole heads (cuda/fused_vectorized.h). A
// warp handles the heads of a token, so that cos and sin are computed once for all of them, and no
// warp waits for another, nor for another to end.
#pragma once

#include <cstdint>

#include "cuda/device/grid_dependency.cuh"
#include "cuda/device/kernel_config.cuh"
#include "cuda/device/lane_head.cuh"
#include "cuda/device/quantize.cuh"
#include "cuda/device/store_slots.cuh"
#include "cuda/fused_vectorized.h"

namespace rotary::internal::cuda {

/// Both packs of a lane to a cache of 8 bits.
template <class Head>
__device__ __forceinline__ void store_quantized(const StoreParams& store, char* to,
                                                std::int32_t lane, const Head& head,
                                                const Quantizer& quantize) {
  using Element = typename Head::ElementType;
  constexpr int kCount = Head::kCount;
  // The unfused chain rounds to the tensor's type before it quantises.
  const auto codes_of = [&](const float(&v)[kCount]) {
    float rounded_elements[kCount];
    Element::unpack(Element::pack(v), rounded_elements);
    Packed<kCount> codes{};
#pragma unroll
    for (int i = 0; i < kCount; ++i) {
      codes.words[i / 4] |= quantize(rounded_elements[i]) << (i % 4 * 8);
    }
    return codes;
  };
  store_packed(to + lane * kCount, codes_of(head.a));
  store_packed(to + (lane + Head::kLanes) * kCount, codes_of(head.b));
}

/// What a launch stores in caches.
enum class Stores : std::uint8_t {
  kNone,
  kPlain,  // in the elements' type
  kAny,
};

/// A head to its result or, unless its token has no slot, into the cache. `to`: of its first pack.
template <class Head, Stores kStores>
__device__ __forceinline__ void store_head(const FusedVectorizedParams& p,
                                           const FusedTileOperand& o, const Head& head,
                                           std::int32_t h, std::int32_t lane, std::int64_t slot,
                                           char* to) {
  using Element = typename Head::ElementType;
  if (kStores != Stores::kNone && o.store != kNoStore) {
    if (slot < 0) return;
    const StoreParams& store = p.stores[o.store];
    char* const cached = StoredToken(store, slot).data + h * store.head_stride;
    if (kStores == Stores::kAny && is_quantized(store.type)) {
      store_quantized(store, cached, lane, head, given_quantizer(store, h));
      return;
    }
    to = cached + lane * static_cast<std::int32_t>(sizeof(typename Head::Pack));
  }
  store_packed(to, Element::pack(head.a));
  store_packed(to + Head::kLanes * sizeof(typename Head::Pack), Element::pack(head.b));
}

template <bool kStores>
__device__ __forceinline__ void touch_parameters(const FusedVectorizedParams& p,
                                                 const FusedTileOperand& o) {
  const VectorizedPositions& at = p.angles.positions;
  touch(at.start);
  touch(at.ids);
  touch(at.boundaries);
  touch(at.token_stride);
  touch(p.angles.cos_magnitude);
  touch(p.angles.sin_magnitude);
  touch(o.in);
  touch(o.out);
  touch(o.in_token);
  touch(o.out_head);
  touch(o.heads);
  touch(o.end_step);
  touch(o.weight);
  touch(static_cast<std::int32_t>(o.has_float_weight));
  touch(p.eps);
  touch(static_cast<std::int32_t>(p.rounds_between));
  if constexpr (kStores) {
    touch(p.slots.indices);
    touch(p.slots.count);
    touch(p.slots.num_slots);
    const StoreParams& store = p.stores[o.store > 0 ? 1 : 0];
    touch(store.data);
    touch(store.scale);
    touch(static_cast<std::int32_t>(store.type));
  }
}

// Measured fastest (docs/fused.md): heads per thread in a step, and resident warps per SM.
inline constexpr int kFusedHeadsPerThread = 2;
inline constexpr int kFusedWarps = 24;

/// Block: a warp, for a token or a part of its heads; grid: [tokens][batch][parts of a token]. In a
/// step each thread has a part of kHeads heads.
template <class Element, Pairing kPairing, int kLanes, bool kStores,
          Angles kAngles = Angles::kFrequencies>
__global__ void __launch_bounds__(32, kFusedWarps)
    fused_vectorized(const __grid_constant__ FusedVectorizedParams p) {
  using Head = LaneHead<Element, kPairing, kLanes>;
  constexpr int kHeads = kFusedHeadsPerThread;
  // Stores in the elements' type alone were measured slower in a kernel of their own.
  constexpr Stores kStored = kStores ? Stores::kAny : Stores::kNone;
  constexpr std::int32_t kWarpHeads = 32 / kLanes;
  constexpr std::int32_t kHeadDim = 2 * Head::kCount * kLanes;
  extern __shared__ __align__(16) float memory[];  // cos, sin, weights
  if (p.angles.overlaps) launch_dependent_grids();
  const auto token = static_cast<std::int32_t>(blockIdx.x);
  const auto batch = static_cast<std::int32_t>(blockIdx.y);
  const auto lane = static_cast<std::int32_t>(threadIdx.x % kLanes);
  const auto head_of_warp = static_cast<std::int32_t>(threadIdx.x / kLanes);
  const auto first_step = static_cast<std::int32_t>(blockIdx.z) * p.part_steps;
  float* const row = memory;
  float* const weights = row + kHeadDim;
  bool has_row = first_step >= p.rotated_steps;  // or needs none
  WarpRow<Head, kAngles> row_inputs;
  if (!has_row) row_inputs.fetch_frequencies(p, kHeadDim / 2);
  int k = 0;
  while (k + 1 < kFusedVectorizedOperands && first_step >= p.operands[k].end_step) ++k;
  touch_parameters<kStores>(p, p.operands[k]);
  if (is_prefetching_block(p.angles.prefetch_blocks)) {
    const FusedTileOperand& o = p.operands[k];
    const std::int32_t h = (first_step - o.first_step) * (kHeads * kWarpHeads) + head_of_warp;
    const char* from =
        pack_address(o.in, batch * o.in_batch + token * o.in_token + h * o.in_head + lane);
#pragma unroll
    for (int j = 0; j < kHeads; ++j) {
      if (h + j * kWarpHeads >= o.heads) break;
      prefetch_l2(from);
      prefetch_l2(from + kLanes * 16);
      from += std::int64_t{o.in_head} * (kWarpHeads * 16);
    }
  }
  wait_on_dependent_grids();

  if (!has_row) row_inputs.fetch_positions(p, batch, token, kHeadDim / 2);
  std::int64_t slot = 0;
  if constexpr (kStores) slot = slot_of(p.slots, batch, token);
  std::int32_t step = first_step;
#pragma unroll 1
  for (; k < kFusedVectorizedOperands; ++k) {
    const FusedTileOperand& o = p.operands[k];
    const std::int32_t part_end = first_step + p.part_steps;
    const std::int32_t end = o.end_step < part_end ? o.end_step : part_end;
    if (step >= end) continue;
    std::int32_t h = (step - o.first_step) * (kHeads * kWarpHeads) + head_of_warp;
    const char* from =
        pack_address(o.in, batch * o.in_batch + token * o.in_token + h * o.in_head + lane);
    char* to = nullptr;
    if (!kStores || o.store == kNoStore) {
      to = pack_address(o.out, batch * o.out_batch + token * o.out_token + h * o.out_head + lane);
    }
    const std::int64_t in_stride = std::int64_t{o.in_head} * (kWarpHeads * 16);
    const std::int64_t out_stride = std::int64_t{o.out_head} * (kWarpHeads * 16);
    const std::int32_t heads = o.heads;
    WarpWeights<Head> fetched(o.weight, o.has_float_weight, kLanes);
    const bool normalizes = !kStores || o.normalizes;
    if (normalizes) fetched.fetch();
    bool has_weight = !normalizes;
#pragma unroll 1
    for (; step < end; ++step) {
      Packed<16> data[kHeads][2];
#pragma unroll
      for (int j = 0; j < kHeads; ++j) {
        data[j][0] = data[j][1] = Packed<16>{};
        if (h + j * kWarpHeads < heads) {
          data[j][0] = load_packed(from);
          data[j][1] = load_packed(from + kLanes * 16);
        }
        from += in_stride;
      }
      if (step + 1 < end) {  // the next step's
#pragma unroll
        for (int j = 0; j < kHeads; ++j) {
          if (h + (kHeads + j) * kWarpHeads < heads) {
            prefetch_l2(from + j * in_stride);
            prefetch_l2(from + j * in_stride + kLanes * 16);
          }
        }
      }
      if (!has_row) {
        row_inputs.compute(p, token, kHeadDim / 2, kLanes, row);
        has_row = true;
        __syncwarp();
      }
      if (!has_weight) {
        __syncwarp();  // all lanes have read the weights of the previous operand
        fetched.store(p.adds_one, weights);
        has_weight = true;
        __syncwarp();
      }
#pragma unroll
      for (int j = 0; j < kHeads; ++j) {
        Head head;
        head.unpack(data[j][0], data[j][1]);
        const bool is_stored = h < heads;
        // Called once in each branch: after a join the compiler would move every element.
        const auto finish = [&] {
          if (!kStores || o.rotates) head.rotate(row, lane);
          if (is_stored) store_head<Head, kStored>(p, o, head, h, lane, slot, to);
        };
        if (normalizes) {
          head.multiply(head.scale(p.eps));
          if constexpr (kAngles == Angles::kTable) {  // as models of transformers have it
            if (p.rounds_before_weight) head.round();
          }
          head.multiply(weights, lane);
          if (p.rounds_between) {
            head.round();
            finish();
          } else {
            finish();
          }
        } else {
          finish();
        }
        to += out_stride;
        h += kWarpHeads;
      }
    }
  }
}

}  // namespace rotary::internal::cuda
