// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// Halves whose packs are exchanged between lanes.
#pragma once

#include <cstdint>

#include "cuda/device/units.cuh"

namespace rotary::internal::cuda {

/// Pairs (i, i + pairs): a thread holds one pack, and the pack of the other half comes from another
/// lane, so that a warp reads and writes without gaps. The block's x are the packs of the rotary
/// slice, 2 to 32 and a power of two; blocks are whole warps.
template <class In, class Out = In>
struct ExchangedUnit : PackedUnit<In, Out> {
  using T = typename In::Compute;
  static constexpr int kPairs = In::kPerPack;
  static constexpr int kPacks = 1;
  struct Data {
    Pack<16> packs[1];
  };

  static __device__ __forceinline__ std::uint32_t row_part(std::uint32_t x) {
    return x & (blockDim.x / 2 - 1);
  }
  static __device__ __forceinline__ std::uint32_t row_parts(std::uint32_t units) {
    return units / 2;
  }
  /// first = x c - y s and second = y c + x s differ in the sign of s alone.
  static __device__ __forceinline__ auto turn(const Data& data, const T (&c)[kPairs],
                                              const T (&s)[kPairs],
                                              const typename Out::Target& target) {
    Pack<16> other;
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      other.words[i] = __shfl_xor_sync(~0u, data.packs[0].words[i], blockDim.x / 2);
    }
    T mine[kPairs];
    T theirs[kPairs];
    In::unpack(data.packs[0], mine);
    In::unpack(other, theirs);
    const std::uint32_t sign = threadIdx.x < blockDim.x / 2 ? 1u : 0u;
#pragma unroll
    for (int i = 0; i < kPairs; ++i) {
      mine[i] = fused(theirs[i], flip_sign(s[i], sign), product(mine[i], c[i]));
    }
    return Turned<decltype(Out::pack(mine, target)), 1>{{Out::pack(mine, target)}};
  }
};

}  // namespace rotary::internal::cuda
