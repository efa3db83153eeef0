// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// The rotation of anything: any strides, any source of angles, up to four operands. A block takes
// the heads of a token (or a share of them, or a few tokens). Its threads first send for their
// parts of the heads, then make the token's angles together in shared memory, and turn what has
// arrived meanwhile. Every load of a head comes before its first store, so that `out` may be `in`
// whatever the pairings.
#pragma once

#include <cstdint>
#include <type_traits>

#include "cuda/device/blocks.cuh"
#include "cuda/device/float8.cuh"
#include "cuda/device/operands.cuh"
#include "cuda/device/row.cuh"
#include "cuda/device/units.cuh"
#include "cuda/params.h"

namespace rotary::internal::cuda {

/// This thread's share of the row of its token.
template <class Unit, class Params>
__device__ __forceinline__ void make_row(const Params& p, std::uint32_t token, std::uint32_t units,
                                         typename Unit::T* c, typename Unit::T* s) {
  const auto count = static_cast<std::uint32_t>(p.pair_count);
  for (std::uint32_t i = threadIdx.y * blockDim.x + threadIdx.x; i < count;
       i += blockDim.x * blockDim.y) {
    const CosSin<typename Unit::T> z = z_of<typename Unit::T>(p, blockIdx.y, token, i);
    c[Row<Unit>::at(i, units)] = z.cos;
    s[Row<Unit>::at(i, units)] = z.sin;
  }
}

/// What the type that head h is written in must be told.
template <class Unit>
__device__ __forceinline__ typename Unit::Target target_of(const RotateParams& p,
                                                           const TokenHeads& token,
                                                           std::int32_t h) {
  if constexpr (std::is_same_v<typename Unit::OutElement, Float8>) {
    return {token.scale(h), p.out_type == DType::kFloat8E5M2 ? __NV_E5M2 : __NV_E4M3};
  } else {
    return {};
  }
}

/// Elements outside the rotary slice, in steps of what all threads of a head copy at a time.
template <class Unit>
__device__ __forceinline__ void copy_rest(const RotateParams& p, const TokenHeads& token,
                                          std::int32_t h) {
  const std::int32_t width = 2 * p.pairs;
  const Head<const char*> in = token.in(h);
  const Head<char*> out = token.out(h);
  const auto target = target_of<Unit>(p, token, h);
  const auto step = static_cast<std::int32_t>(blockDim.x * Unit::kPack);
  for (std::int32_t i = threadIdx.x * Unit::kPack; i < p.head_dim - width; i += step) {
    const std::int32_t at = i < p.rotary_offset ? i : i + width;
    Unit::copy(in, out, at, target);
  }
}

/// x is the unit in the head, y the head, z the token of the block; blocks run over tokens, batch
/// rows and shares of the heads.
template <class Unit, class Build, class Params>
__global__ void __launch_bounds__(Build::kThreads, Build::kBlocks)
    rotate_heads(const __grid_constant__ Params p) {
  using T = typename Unit::T;
  extern __shared__ __align__(16) unsigned char memory[];
  const std::uint32_t x = threadIdx.x;
  const std::uint32_t token = blockIdx.x * blockDim.z + threadIdx.z;
  const std::uint32_t units = static_cast<std::uint32_t>(p.pair_count) / Unit::kPairs;
  const std::uint32_t row_size = padded_pairs(p.pair_count);
  T* const c = reinterpret_cast<T*>(memory) + threadIdx.z * 2 * row_size;
  T* const s = c + row_size;
  const bool inside = token < p.tokens;
  const bool turns = inside && x < units;
  const std::int32_t pair = p.first_pair + static_cast<std::int32_t>(x) * Unit::kPairs;
  const TokenHeads heads(p, blockIdx.y, token);
  typename Unit::Data data[Build::kHeads];
  if (p.overlaps) let_next_launch_begin();
  wait_for_previous_launch();
  if (turns) {
    const auto from = Unit::read_places(p, pair);
#pragma unroll
    for (int j = 0; j < Build::kHeads; ++j) {
      if (Build::head(j, blockIdx.z) < p.num_heads)
        data[j] = Unit::load(heads.in(Build::head(j, blockIdx.z)), from);
    }
  }
  if (inside) make_row<Unit>(p, token, units, c, s);
  __syncthreads();
  if (turns) {
    const auto to = Unit::write_places(p, pair);
    T cos[Unit::kPairs];
    T sin[Unit::kPairs];
    Row<Unit>::read(c, x, units, cos);
    Row<Unit>::read(s, x, units, sin);
#pragma unroll
    for (int j = 0; j < Build::kHeads; ++j) {
      const std::int32_t h = Build::head(j, blockIdx.z);
      if (h >= p.num_heads) continue;
      Unit::store(data[j], cos, sin, heads.out(h), to, target_of<Unit>(p, heads, h));
    }
  }
  if (!p.copies_rest || !inside) return;
  for (int j = 0; j < Build::kHeads; ++j) {
    if (Build::head(j, blockIdx.z) < p.num_heads)
      copy_rest<Unit>(p, heads, Build::head(j, blockIdx.z));
  }
}

}  // namespace rotary::internal::cuda
