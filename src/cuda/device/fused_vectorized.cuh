// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// The fastest fused kernel: norm, rotation and store of whole heads (cuda/fused_vectorized.h). A
// block handles heads of one operand, as rotate_vectorized does. `lanes` lanes of a warp share a
// head: each holds two packs of it, half a head apart, so that a pair stays in one thread for
// either pairing, and a norm takes a few shuffles. Nothing but cos and sin is in shared memory.
#pragma once

#include <cstdint>
#include <type_traits>

#include "cuda/device/cos_sin.cuh"
#include "cuda/device/elements.cuh"
#include "cuda/device/fragments.cuh"
#include "cuda/device/grid_dependency.cuh"
#include "cuda/device/packed.cuh"
#include "cuda/device/quantize.cuh"
#include "cuda/device/rotate_vectorized.cuh"
#include "cuda/device/store_slots.cuh"
#include "cuda/device/warp_norm.cuh"
#include "cuda/fused_vectorized.h"

namespace rotary::internal::cuda {

/// A head's part of one lane as floats, and what is done to it.
template <class Element, Pairing kPairing>
struct LaneHead {
  static constexpr int kCount = Element::kPerPack;
  static constexpr bool kHalf = kPairing == Pairing::kHalf;

  float a[kCount];  // pack `lane`
  float b[kCount];  // pack `lane + lanes`

  __device__ __forceinline__ void unpack(const Packed<16>& first, const Packed<16>& second) {
    Element::unpack(first, a);
    Element::unpack(second, b);
  }

  /// 1 / sqrt(mean square + eps).
  __device__ __forceinline__ float scale(std::int32_t lanes, float reciprocal_size,
                                         float eps) const {
    constexpr int kFours = kCount / 4;
    LaneSquares<kFours> squares;
#pragma unroll
    for (int i = 0; i < kFours; ++i) {
      squares.first[i] = sum_of_four(a, 4 * i);
      squares.second[i] = sum_of_four(b, 4 * i);
    }
    const float sum = sum_of_lanes(squares, lanes);
    return rsqrtf(__fadd_rn(__fmul_rn(sum, reciprocal_size), eps));
  }

  __device__ __forceinline__ void normalize(float scale, const LaneHead& weight, bool rounds) {
#pragma unroll
    for (int i = 0; i < kCount; ++i) {
      a[i] = __fmul_rn(__fmul_rn(a[i], scale), weight.a[i]);
      b[i] = __fmul_rn(__fmul_rn(b[i], scale), weight.b[i]);
    }
    if constexpr (!std::is_same_v<Element, Float32>) {
      if (!rounds) return;
      unpack(Element::pack(a), Element::pack(b));
    }
  }

  // Rows of cos and sin: of a lane's pairs in two vectors of kCount / 2, the first vectors of all
  // lanes before the second ones. Those of interleaved pairs are then in their own order.

  static __device__ __forceinline__ std::uint32_t row_offset(std::uint32_t pair,
                                                             std::uint32_t lanes) {
    constexpr std::uint32_t kVector = kCount / 2;
    if constexpr (!kHalf) return pair;
    const std::uint32_t in_lane = pair % kCount;
    return (in_lane / kVector * lanes + pair / kCount) * kVector + in_lane % kVector;
  }
  static __device__ __forceinline__ void read_row(const float* row, std::uint32_t lane,
                                                  std::uint32_t lanes, float (&v)[kCount]) {
    constexpr int kVector = kCount / 2;
    struct alignas(kVector * sizeof(float)) Vector {
      float values[kVector];
    };
#pragma unroll
    for (int k = 0; k < 2; ++k) {
      const Vector vector = reinterpret_cast<const Vector*>(row)[k * lanes + lane];
#pragma unroll
      for (int i = 0; i < kVector; ++i) v[k * kVector + i] = vector.values[i];
    }
  }

  __device__ __forceinline__ void rotate(const float (&c)[kCount], const float (&s)[kCount]) {
    if constexpr (kHalf) {
#pragma unroll
      for (int i = 0; i < kCount; ++i) rotate_pair(a[i], b[i], c[i], s[i]);
    } else {
#pragma unroll
      for (int i = 0; i < kCount / 2; ++i) {
        rotate_pair(a[2 * i], a[2 * i + 1], c[i], s[i]);
        rotate_pair(b[2 * i], b[2 * i + 1], c[kCount / 2 + i], s[kCount / 2 + i]);
      }
    }
  }
};

/// The lane's weights, 1 where there are none.
template <class Element, Pairing kPairing>
__device__ __forceinline__ LaneHead<Element, kPairing> load_lane_weights(
    const void* weight, bool is_float, std::int32_t lane, std::int32_t lanes, bool adds_one) {
  constexpr int kCount = Element::kPerPack;
  LaneHead<Element, kPairing> w;
  if (weight == nullptr) {
#pragma unroll
    for (int i = 0; i < kCount; ++i) w.a[i] = w.b[i] = 1.0f;
    return w;
  }
  const auto* const from = static_cast<const char*>(weight);
  if (std::is_same_v<Element, Float32> || !is_float) {
    w.unpack(load_packed(from + lane * 16), load_packed(from + (lane + lanes) * 16));
  } else {
    const auto load_floats = [&](std::int32_t pack, float(&v)[kCount]) {
#pragma unroll
      for (int k = 0; k < kCount / 4; ++k) {
        const Packed<16> four = load_packed(from + pack * (kCount * 4) + k * 16);
#pragma unroll
        for (int i = 0; i < 4; ++i) v[4 * k + i] = __uint_as_float(four.words[i]);
      }
    };
    load_floats(lane, w.a);
    load_floats(lane + lanes, w.b);
  }
  if (adds_one) {
#pragma unroll
    for (int i = 0; i < kCount; ++i) {
      w.a[i] = __fadd_rn(1.0f, w.a[i]);
      w.b[i] = __fadd_rn(1.0f, w.b[i]);
    }
  }
  return w;
}

/// Both packs of a lane to a cache, in the type of its elements.
template <class Element>
__device__ __forceinline__ void store_to_cache(const StoreParams& store, char* head,
                                               std::int32_t lane, std::int32_t lanes,
                                               const float (&a)[Element::kPerPack],
                                               const float (&b)[Element::kPerPack],
                                               const Quantizer& quantize) {
  constexpr int kCount = Element::kPerPack;
  if (!is_quantized(store.type)) {
    store_packed(head + lane * 16, Element::pack(a));
    store_packed(head + (lane + lanes) * 16, Element::pack(b));
    return;
  }
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
  store_packed(head + lane * kCount, codes_of(a));
  store_packed(head + (lane + lanes) * kCount, codes_of(b));
}

template <bool kNorms, bool kStores>
__device__ __forceinline__ void touch_parameters(const FusedVectorizedParams& p,
                                                 const FusedTileOperand& o) {
  const VectorizedPositions& at = p.angles.positions;
  touch(at.start);
  touch(at.ids);
  touch(at.boundaries);
  touch(at.token_stride);
  touch(p.angles.cos_magnitude);
  touch(p.angles.sin_magnitude);
  touch(o.out);
  touch(o.out_head);
  if constexpr (kNorms) {
    touch(o.weight);
    touch(p.eps);
    touch(p.reciprocal_size);
  }
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

/// Block: [slots][lanes of a head], whole warps; grid: [1][batch][tiles of all operands].
template <class Element, Pairing kPairing, bool kNorms, bool kStores, class Config>
__global__ void __launch_bounds__(Config::kMaxThreads, Config::kMinBlocks)
    fused_vectorized(const __grid_constant__ FusedVectorizedParams p) {
  using Head = LaneHead<Element, kPairing>;
  constexpr int kHeads = Config::kHeads;
  extern __shared__ __align__(16) float memory[];  // [tokens][cos, sin][pairs]
  float* const rows = memory;
  if (p.angles.overlaps) launch_dependent_grids();
  int k = 0;
#pragma unroll
  for (int other = 1; other < kFusedVectorizedOperands; ++other) {
    if (blockIdx.x >= p.first_tile[other]) k = other;
  }
  const FusedTileOperand& o = p.operands[k];
  const std::uint32_t tile = blockIdx.x - p.first_tile[k];
  const std::uint32_t token_tile = o.splits == 1 ? tile : tile / o.splits;
  const std::uint32_t split = o.splits == 1 ? 0u : tile - token_tile * o.splits;
  const std::uint32_t tile_token = (threadIdx.y * o.group_factor) >> 16;
  const std::uint32_t group = split * o.groups + threadIdx.y - tile_token * o.groups;
  const auto token = static_cast<std::int32_t>(token_tile * o.tokens + tile_token);
  const auto batch = static_cast<std::int32_t>(blockIdx.y);
  const auto lane = static_cast<std::int32_t>(threadIdx.x);
  const std::int32_t lanes = p.angles.fragments;
  const auto first_head = static_cast<std::int32_t>(group * kHeads);
  const bool in_range = tile_token < o.tokens && token < p.angles.tokens;
  const std::uint32_t pairs = 1u << p.pair_shift;

  // cos and sin: entry i of the block is pair i % pairs of its token i / pairs.
  const std::uint32_t entries = o.rotates ? o.tokens << p.pair_shift : 0u;
  std::uint32_t entry = threadIdx.y * blockDim.x + threadIdx.x;
  const auto entry_token = [&] {
    return static_cast<std::int32_t>(token_tile * o.tokens + (entry >> p.pair_shift));
  };
  PhaseInputs inputs{};
  if (entry < entries) inputs.fetch_frequency(p.angles, entry & (pairs - 1));
  const std::int32_t in = batch * o.in_batch + token * o.in_token + lane;
  touch_parameters<kNorms, kStores>(p, o);
  wait_on_dependent_grids();

  if (entry < entries && entry_token() < p.angles.tokens) {
    inputs.fetch_position(p.angles.positions, entry_token());
  }
  Packed<16> data[kHeads][2];
#pragma unroll
  for (int j = 0; j < kHeads; ++j) {
    data[j][0] = data[j][1] = Packed<16>{};
    if (!in_range || first_head + j >= o.heads) continue;
    const char* const from = pack_address(o.in, in + (first_head + j) * o.in_head);
    data[j][0] = load_packed(from);
    data[j][1] = load_packed(from + lanes * 16);
  }
  std::int64_t slot = 0;
  if constexpr (kStores) {
    if (in_range && o.store != kNoStore) slot = slot_of(p.slots, batch, token);
  }
  Head weight;
  if constexpr (kNorms) {
    if (o.normalizes) {
      weight = load_lane_weights<Element, kPairing>(o.weight, o.has_float_weight, lane, lanes,
                                                    p.adds_one);
    }
  }
  while (entry < entries) {
    if (entry_token() < p.angles.tokens) {
      const CosSin<float> z =
          cos_sin_on_device<float>(inputs.phase(p.angles.positions, entry_token()));
      float* const row = rows + ((entry >> p.pair_shift) << (p.pair_shift + 1));
      const std::uint32_t at =
          Head::row_offset(entry & (pairs - 1), static_cast<std::uint32_t>(lanes));
      row[at] = mul_rn(z.cos, p.angles.cos_magnitude);
      row[pairs + at] = mul_rn(z.sin, p.angles.sin_magnitude);
    }
    entry += blockDim.x * blockDim.y;
    if (entry >= entries) break;
    inputs.fetch_frequency(p.angles, entry & (pairs - 1));
    if (entry_token() < p.angles.tokens) {
      inputs.fetch_position(p.angles.positions, entry_token());
    }
  }
  if (o.rotates) __syncthreads();  // the same for all threads of the block

  float c[Element::kPerPack];
  float s[Element::kPerPack];
  if (o.rotates) {
    const float* const row = rows + (in_range ? tile_token << (p.pair_shift + 1) : 0u);
    Head::read_row(row, threadIdx.x, static_cast<std::uint32_t>(lanes), c);
    Head::read_row(row + pairs, threadIdx.x, static_cast<std::uint32_t>(lanes), s);
  }
  const std::int32_t out = batch * o.out_batch + token * o.out_token + lane;
#pragma unroll
  for (int j = 0; j < kHeads; ++j) {
    Head head;
    head.unpack(data[j][0], data[j][1]);
    if constexpr (kNorms) {
      if (o.normalizes) {
        head.normalize(head.scale(lanes, p.reciprocal_size, p.eps), weight, p.rounds_between);
      }
    }
    if (o.rotates) head.rotate(c, s);
    if (!in_range || first_head + j >= o.heads) continue;
    if constexpr (kStores) {
      if (o.store != kNoStore) {
        if (slot < 0) continue;
        const StoreParams& store = p.stores[o.store];
        const std::int32_t h = first_head + j;
        const Quantizer quantize = is_quantized(store.type) ? given_quantizer(store, h)
                                                            : Quantizer{1.0f, true, store.type};
        store_to_cache<Element>(store, StoredToken(store, slot).data + h * store.head_stride, lane,
                                lanes, head.a, head.b, quantize);
        continue;
      }
    }
    char* const to = pack_address(o.out, out + (first_head + j) * o.out_head);
    store_packed(to, Element::pack(head.a));
    store_packed(to + lanes * 16, Element::pack(head.b));
  }
}

}  // namespace rotary::internal::cuda
