// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// The tuned fused kernel: norm, rotation and store in one pass, for heads of whole 16-byte packs,
// equal pairings, exact angles at integer positions and a norm of each head before its rotation. A
// block handles heads of one token, from any operand; the lanes of a part of a warp share a head:
// of its rotary slice a lane holds two packs, so that a pair stays in one thread.
#pragma once

#include <cstdint>
#include <type_traits>

#include "cuda/device/cos_sin.cuh"
#include "cuda/device/elements.cuh"
#include "cuda/device/fragments.cuh"
#include "cuda/device/fused_heads.cuh"
#include "cuda/device/grid_dependency.cuh"
#include "cuda/device/lane_packs.cuh"
#include "cuda/device/norm_sums.cuh"
#include "cuda/device/packed.cuh"
#include "cuda/device/quantize.cuh"
#include "cuda/device/store_slots.cuh"
#include "cuda/fused_params.h"

namespace rotary::internal::cuda {

/// The elements of a head in shared memory, for sums.
template <class Element>
struct StagedHead {
  const char* data;
  __device__ __forceinline__ float load(std::int32_t i) const {
    return Element::load(reinterpret_cast<const typename Element::Storage*>(data)[i]);
  }
  __device__ __forceinline__ TwoLanes load_two(std::int32_t i) const {
    float2 two;
    if constexpr (std::is_same_v<Element, Float32>) {
      two = reinterpret_cast<const float2*>(data)[i / 2];
    } else {
      two = device::unpack_two<typename Element::Type>(
          reinterpret_cast<const std::uint32_t*>(data)[i / 2]);
    }
    return {two.x, two.y};
  }
};

/// A pack as 8-bit elements.
template <class Element>
__device__ __forceinline__ Packed<Element::kPerPack> quantize_pack(const Packed<16>& pack,
                                                                   const Quantizer& quantize) {
  float v[Element::kPerPack];
  Element::unpack(pack, v);
  Packed<Element::kPerPack> codes{};
#pragma unroll
  for (int i = 0; i < Element::kPerPack; ++i) codes.words[i / 4] |= quantize(v[i]) << (i % 4 * 8);
  return codes;
}

template <class Element>
__device__ __forceinline__ float max_of_pack(float max, const Packed<16>& pack) {
  float v[Element::kPerPack];
  Element::unpack(pack, v);
#pragma unroll
  for (int i = 0; i < Element::kPerPack; ++i) max = max_magnitude(max, v[i]);
  return max;
}

/// Factors and biases of the operands whose heads the block has, as rows of units: [operands][2 if
/// has_mean][weight_floats].
template <class Element, class Params>
__device__ __forceinline__ void fill_weight_rows(const Params& p, std::int32_t begin,
                                                 std::int32_t end, float* rows) {
  constexpr int kCount = kUnit<Element>;
  const auto thread = static_cast<std::int32_t>(threadIdx.y * blockDim.x + threadIdx.x);
  const auto threads = static_cast<std::int32_t>(blockDim.x * blockDim.y);
  const std::int32_t row_stride = p.weight_floats * (p.norm.has_mean ? 2 : 1);
  for (int k = 0; k < p.num_operands; ++k) {
    const FusedOperand& f = p.fused[k];
    const std::int32_t after = k + 1 < p.num_operands ? p.first_head[k + 1] : p.num_heads;
    if (!f.normalizes || after <= begin || p.first_head[k] >= end) continue;
    const std::int32_t packs = f.head_dim / Element::kPerPack;
    float* const factors = rows + k * row_stride;
    for (std::int32_t e = thread; e < f.head_dim; e += threads) {
      const std::int32_t pack = e / Element::kPerPack;
      const std::int32_t unit = e % Element::kPerPack / kCount;
      const std::int32_t at = (unit * packs + pack) * kCount + e % kCount;
      float w = f.weight == nullptr ? 1.0f : load_weight(f.weight, f.weight_type, e);
      if (f.weight != nullptr && p.norm.adds_one) w = add_rounded(1.0f, w);
      factors[at] = w;
      // -0 changes no value, not even the sign of a zero.
      if (p.norm.has_mean) {
        factors[p.weight_floats + at] =
            f.bias == nullptr ? -0.0f : load_weight(f.bias, f.bias_type, e);
      }
    }
  }
}

/// cos and sin of the block's token, as rows of units of `stride` packs.
template <class Element, Pairing kPairing, class Params>
__device__ __forceinline__ void fill_rotation_rows(const Params& p, std::int64_t batch,
                                                   std::int64_t token, std::int32_t stride,
                                                   float* cos, float* sin) {
  constexpr int kCount = kUnit<Element>;
  const auto threads = static_cast<std::int32_t>(blockDim.x * blockDim.y);
  for (auto i = static_cast<std::int32_t>(threadIdx.y * blockDim.x + threadIdx.x); i < p.pair_count;
       i += threads) {
    const CosSin<float> z = cos_sin_of<float>(static_cast<const SimpleParams&>(p), batch, token, i);
    std::int32_t at = i;
    if constexpr (kPairing == Pairing::kHalf) {
      const std::int32_t unit = i % Element::kPerPack / kCount;
      at = (unit * stride + i / Element::kPerPack) * kCount + i % kCount;
    }
    cos[at] = z.cos;
    sin[at] = z.sin;
  }
}

/// Upper bound of a block's threads.
inline constexpr int kMaxFusedTokenThreads = 384;

/// Block: [heads][lanes of a head], whole warps; grid: [splits of all operands' heads][batch]
/// [tokens].
template <class Element, Pairing kPairing, bool kNorms, bool kStores>
__global__ void __launch_bounds__(kMaxFusedTokenThreads, 3)
    fused_tokens(const __grid_constant__ FusedTokensParams p) {
  // [cos, sin][pairs], rows of weights, then [heads][staged_bytes]
  extern __shared__ __align__(16) float memory[];
  constexpr int kPerPack = Element::kPerPack;
  if (p.overlaps) launch_dependent_grids();
  const auto lane = static_cast<std::int32_t>(threadIdx.x);
  const auto lanes = static_cast<std::int32_t>(blockDim.x);
  const std::int64_t token = blockIdx.x;
  const std::int64_t batch = blockIdx.y;
  const auto begin = static_cast<std::int32_t>(blockIdx.z * blockDim.y);
  const std::int32_t global_head = begin + static_cast<std::int32_t>(threadIdx.y);
  const bool in_range = global_head < p.num_heads;
  int k = 0;
#pragma unroll
  for (int other = 1; other < kOperandsPerLaunch; ++other) {
    if (global_head >= p.first_head[other]) k = other;
  }
  const OperandParams& o = p.operands[k];
  const FusedOperand& f = p.fused[k];
  const std::int32_t head = global_head - p.first_head[k];
  const std::int32_t stride = p.pairs / kPerPack;
  const std::int32_t own = f.rotates ? stride : 0;  // lanes that rotate two packs
  const std::int32_t before = p.rotary_offset / kPerPack;
  const std::int32_t packs = f.head_dim / kPerPack;
  const std::int32_t pass = in_range ? packs - 2 * own : 0;
  const auto pass_pack = [&](std::int32_t i) { return own == 0 || i < before ? i : i + 2 * own; };
  float* const cos = memory;
  float* const sin = cos + p.row_floats;
  float* const weights = sin + p.row_floats;
  char* const staged = reinterpret_cast<char*>(memory) + p.staged_offset +
                       static_cast<std::int32_t>(threadIdx.y) * p.staged_bytes;
  const char* const in =
      static_cast<const char*>(o.in) + batch * o.in_batch + token * o.in_token + head * o.in_head;
  const bool rotates = in_range && lane < own;
  const std::int32_t first = before + lane;
  wait_on_dependent_grids();

  Packed<16> a{};
  Packed<16> b{};
  if (rotates) {
    a = load_packed(in + first * 16);
    b = load_packed(in + (first + stride) * 16);
  }
  std::int64_t slot = 0;
  if constexpr (kStores) {
    if (in_range && f.store != kNoStore) slot = slot_of(p.slots, batch, token);
  }
  fill_rotation_rows<Element, kPairing>(p, batch, token, stride, cos, sin);
  if constexpr (kNorms) {
    fill_weight_rows<Element>(p, begin, begin + static_cast<std::int32_t>(blockDim.y), weights);
    if (rotates) {
      *reinterpret_cast<Packed<16>*>(staged + first * 16) = a;
      *reinterpret_cast<Packed<16>*>(staged + (first + stride) * 16) = b;
    }
    for (std::int32_t i = lane; i < pass; i += lanes) {
      const std::int32_t at = pass_pack(i) * 16;
      *reinterpret_cast<Packed<16>*>(staged + at) = load_packed(in + at);
    }
  }
  __syncthreads();

  LanePacks<Element, kPairing, kNorms> work{};
  work.cos = cos;
  work.sin = sin;
  work.first = first;
  work.stride = stride;
  work.lane = lane;
  if constexpr (kNorms) {
    work.normalizes = f.normalizes;
    const StagedHead<Element> head_elements{staged};
    const Moments moments =
        moments_of(p.norm.has_mean, p.norm.eps, p.head_dim, p.norm.sum_lanes, [&](const auto& add) {
          return group_sum(
              p.head_dim, p.norm.sum_lanes, lanes,
              [&](std::int32_t i) { return head_elements.load(i); },
              [&](std::int32_t i) { return head_elements.load_two(i); }, add);
        });
    const float* const factors = weights + k * p.weight_floats * (p.norm.has_mean ? 2 : 1);
    work.norm = {.factors = factors,
                 .biases = factors + p.weight_floats,
                 .packs = packs,
                 .mean = moments.mean,
                 .scale = moments.scale,
                 .has_mean = p.norm.has_mean,
                 .rounds = p.norm.rounds_between};
  }
  if (rotates) {
    work.template rotate_chunk<0>(a, b);
    work.template rotate_chunk<1>(a, b);
  }
  const auto passed = [&](std::int32_t at) {
    const Packed<16> pack =
        kNorms ? *reinterpret_cast<const Packed<16>*>(staged + at * 16) : load_packed(in + at * 16);
    return work.finish_pass(pack, at);
  };
  // Calls write(pack, its index) for the lane's packs.
  const auto for_each_pack = [&](const auto& write) {
    if (rotates) {
      write(a, first);
      write(b, first + stride);
    }
    for (std::int32_t i = lane; i < pass; i += lanes) {
      write(passed(pass_pack(i)), pass_pack(i));
    }
  };
  if constexpr (kStores) {
    const bool stores = in_range && f.store != kNoStore;
    const StoreParams& store = p.stores[f.store > 0 ? 1 : 0];
    const bool computes = stores && store.computed != nullptr;
    float max = 0.0f;
    if (p.computes_scales) {  // the same for all threads
      if (computes) {
        for_each_pack(
            [&](const Packed<16>& pack, std::int32_t) { max = max_of_pack<Element>(max, pack); });
      }
      for (std::int32_t step = lanes / 2; step > 0; step /= 2) {
        max = fmaxf(max, __shfl_xor_sync(~0u, max, step));
      }
    }
    if (stores) {
      if (slot < 0) return;
      const StoredToken to(store, slot);
      char* const data = to.data + head * store.head_stride;
      if (!is_quantized(store.type)) {
        for_each_pack(
            [&](const Packed<16>& pack, std::int32_t at) { store_packed(data + at * 16, pack); });
        return;
      }
      const Quantizer quantize =
          computes ? computed_quantizer(store, max) : given_quantizer(store, head);
      if (computes && lane == 0) to.computed[head * store.computed_head] = quantize.scale;
      for_each_pack([&](const Packed<16>& pack, std::int32_t at) {
        store_packed(data + at * kPerPack, quantize_pack<Element>(pack, quantize));
      });
      return;
    }
  }
  char* const out =
      static_cast<char*>(o.out) + batch * o.out_batch + token * o.out_token + head * o.out_head;
  for_each_pack(
      [&](const Packed<16>& pack, std::int32_t at) { store_packed(out + at * 16, pack); });
}

}  // namespace rotary::internal::cuda
