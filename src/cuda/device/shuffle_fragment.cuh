// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// Half pairing by warp shuffles.
#pragma once

#include <cstdint>

#include "cuda/device/fragments.cuh"

namespace rotary::internal::cuda {

/// Pairs (i, i + pairs), one pack per thread: the matching pack of the other half comes from
/// another lane by __shfl_xor_sync, so that accesses of a warp are fully coalesced. threadIdx.x is
/// the pack of the rotary slice; blockDim.x is a power of two from 2 to 32, and a block consists of
/// whole warps.
template <class In, class Out = In>
struct ShuffleFragment : PackedFragment<In, Out> {
  using T = typename In::Compute;
  static constexpr int kPairs = In::kPerPack;
  static constexpr int kPacks = 1;
  struct Data {
    Packed<16> packs[1];
  };

  static __device__ __forceinline__ std::uint32_t row_fragment(std::uint32_t x) {
    return x & (blockDim.x / 2 - 1);
  }
  static __device__ __forceinline__ std::uint32_t row_fragments(std::uint32_t fragments) {
    return fragments / 2;
  }
  /// x c - y s (first half) and y c + x s (second half) differ in the sign of s only.
  static __device__ __forceinline__ auto rotate(const Data& data, const T (&c)[kPairs],
                                                const T (&s)[kPairs],
                                                const typename Out::StoreParams& store_params) {
    Packed<16> other;
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
      mine[i] = fma_rn(theirs[i], flip_sign(s[i], sign), mul_rn(mine[i], c[i]));
    }
    return Rotated<decltype(Out::pack(mine, store_params)), 1>{{Out::pack(mine, store_params)}};
  }
};

}  // namespace rotary::internal::cuda
