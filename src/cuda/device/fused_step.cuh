// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// fused_vectorized for a decoding step, in which latency is all: a warp handles one step of a
// token, without loops. Weights go straight to registers; few registers, so that the blocks of the
// next launch fit beside those of this one and read their parameters while it runs.
#pragma once

#include <cstdint>

#include "cuda/device/fused_vectorized.cuh"

namespace rotary::internal::cuda {

/// Weights of the elements' type; 1 where there are none.
template <class Head>
struct LaneWeights {
  Packed<16> packs[2];

  __device__ __forceinline__ void fetch(const void* weight, std::int32_t lane) {
    if (weight == nullptr) return;
    const char* const from = static_cast<const char*>(weight) + lane * 16;
    packs[0] = load_packed(from);
    packs[1] = load_packed(from + Head::kLanes * 16);
  }
  __device__ __forceinline__ void multiply(const void* weight, bool adds_one, Head& head) const {
    if (weight == nullptr) return;
    Head w;
    w.unpack(packs[0], packs[1]);
#pragma unroll
    for (int i = 0; i < Head::kCount; ++i) {
      head.a[i] = __fmul_rn(head.a[i], adds_one ? __fadd_rn(1.0f, w.a[i]) : w.a[i]);
      head.b[i] = __fmul_rn(head.b[i], adds_one ? __fadd_rn(1.0f, w.b[i]) : w.b[i]);
    }
  }
};

/// Block: [tokens][32]; grid: [tiles of tokens][batch][steps of a token]. Ten blocks for each
/// multiprocessor: those of the next launch must fit beside them (docs/fused.md).
template <class Element, Pairing kPairing, int kLanes, bool kStores>
__global__ void __launch_bounds__(32 * kFusedBlockWarps, 10)
    fused_step(const __grid_constant__ FusedVectorizedParams p) {
  using Head = LaneHead<Element, kPairing, kLanes>;
  constexpr std::int32_t kHeadDim = 2 * Head::kCount * kLanes;
  extern __shared__ __align__(16) float memory[];  // [warps][cos, sin]
  if (p.angles.overlaps) launch_dependent_grids();
  const auto token = static_cast<std::int32_t>(blockIdx.x * blockDim.y + threadIdx.y);
  if (token >= p.angles.tokens) return;
  const auto batch = static_cast<std::int32_t>(blockIdx.y);
  const auto step = static_cast<std::int32_t>(blockIdx.z);
  int k = 0;
  while (k + 1 < kFusedVectorizedOperands && step >= p.operands[k].end_step) ++k;
  const FusedTileOperand& o = p.operands[k];
  const auto lane = static_cast<std::int32_t>(threadIdx.x % kLanes);
  const std::int32_t h =
      (step - o.first_step) * (32 / kLanes) + static_cast<std::int32_t>(threadIdx.x / kLanes);
  const bool in_range = h < o.heads;
  const bool normalizes = !kStores || o.normalizes;
  const bool rotates = !kStores || o.rotates;
  const char* const from =
      pack_address(o.in, batch * o.in_batch + token * o.in_token + h * o.in_head + lane);
  char* const to =
      pack_address(o.out, batch * o.out_batch + token * o.out_token + h * o.out_head + lane);
  float* const row = memory + static_cast<std::int32_t>(threadIdx.y) * kHeadDim;
  WarpRow<Head> row_inputs;
  if (rotates) row_inputs.fetch_frequencies(p.angles, kHeadDim / 2);
  touch_parameters<kStores>(p, o);
  wait_on_dependent_grids();

  if (rotates) row_inputs.fetch_positions(p.angles, batch, token);
  Packed<16> data[2] = {};
  if (in_range) {
    data[0] = load_packed(from);
    data[1] = load_packed(from + kLanes * 16);
  }
  LaneWeights<Head> weights;
  if (normalizes) weights.fetch(o.weight, lane);
  std::int64_t slot = 0;
  if (kStores && o.store != kNoStore) slot = slot_of(p.slots, batch, token);
  if (rotates) {
    row_inputs.compute(p.angles, token, kHeadDim / 2, kLanes, row);
    __syncwarp();
  }
  Head head;
  head.unpack(data[0], data[1]);
  if (normalizes) {
    head.multiply(head.scale(p.eps));
    weights.multiply(o.weight, p.adds_one, head);
    if (p.rounds_between) head.round();
  }
  if (rotates) head.rotate(row, lane);
  if (in_range) store_head<Head, kStores>(p, o, head, h, lane, slot, to);
}

}  // namespace rotary::internal::cuda
