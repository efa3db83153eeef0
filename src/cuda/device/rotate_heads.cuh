// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// The general rotation kernel: any strides, any source of angles, up to four operands. A block
// handles the heads of a token (or a share of them, or a few tokens). Its threads issue their loads
// first, compute the token's rotation row in shared memory while the loads are in flight, then
// rotate and store. All loads of a head precede its first store, so `out` may be `in` for any
// pairings.
#pragma once

#include <cstdint>
#include <type_traits>

#include "cuda/device/cos_sin.cuh"
#include "cuda/device/float8.cuh"
#include "cuda/device/fragments.cuh"
#include "cuda/device/grid_dependency.cuh"
#include "cuda/device/kernel_config.cuh"
#include "cuda/device/rotation_row.cuh"
#include "cuda/device/token_heads.cuh"
#include "cuda/params.h"

namespace rotary::internal::cuda {

/// Computes this thread's share of its token's rotation row.
template <class Fragment, class Params>
__device__ __forceinline__ void fill_row(const Params& p, std::uint32_t token,
                                         std::uint32_t fragments, typename Fragment::T* c,
                                         typename Fragment::T* s) {
  const auto count = static_cast<std::uint32_t>(p.pair_count);
  for (std::uint32_t i = threadIdx.y * blockDim.x + threadIdx.x; i < count;
       i += blockDim.x * blockDim.y) {
    const CosSin<typename Fragment::T> z =
        cos_sin_of<typename Fragment::T>(p, blockIdx.y, token, i);
    c[RotationRow<Fragment>::offset(i, fragments)] = z.cos;
    s[RotationRow<Fragment>::offset(i, fragments)] = z.sin;
  }
}

/// Parameters of storing head h: its scale and format for 8-bit output.
template <class Fragment>
__device__ __forceinline__ typename Fragment::StoreParams store_params_of(const KernelParams& p,
                                                                          const TokenHeads& token,
                                                                          std::int32_t h) {
  if constexpr (std::is_same_v<typename Fragment::OutElement, Float8>) {
    return {token.scale(h), p.out_type == DType::kFloat8E5M2 ? __NV_E5M2 : __NV_E4M3};
  } else {
    return {};
  }
}

/// Copies the elements of head h outside the rotary slice; the threads of the head share them.
template <class Fragment>
__device__ __forceinline__ void copy_pass_through(const KernelParams& p, const TokenHeads& token,
                                                  std::int32_t h) {
  const std::int32_t width = 2 * p.pairs;
  const Head<const char*> in = token.in(h);
  const Head<char*> out = token.out(h);
  const auto store_params = store_params_of<Fragment>(p, token, h);
  const auto step = static_cast<std::int32_t>(blockDim.x * Fragment::kCopyElements);
  for (std::int32_t i = threadIdx.x * Fragment::kCopyElements; i < p.head_dim - width; i += step) {
    const std::int32_t at = i < p.rotary_offset ? i : i + width;
    Fragment::copy(in, out, at, store_params);
  }
}

/// Block: [tokens][heads / Config::kHeads][fragments of a head]; grid: [head splits][batch][tiles
/// of tokens].
template <class Fragment, class Config, class Params>
__global__ void __launch_bounds__(Config::kMaxThreads, Config::kMinBlocks)
    rotate_heads(const __grid_constant__ Params p) {
  using T = typename Fragment::T;
  extern __shared__ __align__(16) unsigned char memory[];
  const std::uint32_t x = threadIdx.x;
  const std::uint32_t token = blockIdx.x * blockDim.z + threadIdx.z;
  const std::uint32_t fragments = static_cast<std::uint32_t>(p.pair_count) / Fragment::kPairs;
  const std::uint32_t row_size = padded_pairs(p.pair_count);
  T* const c = reinterpret_cast<T*>(memory) + threadIdx.z * 2 * row_size;
  T* const s = c + row_size;
  const bool in_range = token < p.tokens;
  const bool rotates = in_range && x < fragments;
  const std::int32_t pair = p.first_pair + static_cast<std::int32_t>(x) * Fragment::kPairs;
  const TokenHeads heads(p, blockIdx.y, token);
  typename Fragment::Data data[Config::kHeads];
  if (p.overlaps) launch_dependent_grids();
  wait_on_dependent_grids();
  if (rotates) {
    const auto from = Fragment::read_offsets(p, pair);
#pragma unroll
    for (int j = 0; j < Config::kHeads; ++j) {
      if (Config::head(j, blockIdx.z) < p.num_heads) {
        data[j] = Fragment::load(heads.in(Config::head(j, blockIdx.z)), from);
      }
    }
  }
  if (in_range) fill_row<Fragment>(p, token, fragments, c, s);
  __syncthreads();
  if (rotates) {
    const auto to = Fragment::write_offsets(p, pair);
    T cos[Fragment::kPairs];
    T sin[Fragment::kPairs];
    RotationRow<Fragment>::read(c, x, fragments, cos);
    RotationRow<Fragment>::read(s, x, fragments, sin);
#pragma unroll
    for (int j = 0; j < Config::kHeads; ++j) {
      const std::int32_t h = Config::head(j, blockIdx.z);
      if (h >= p.num_heads) continue;
      Fragment::store(data[j], cos, sin, heads.out(h), to, store_params_of<Fragment>(p, heads, h));
    }
  }
  if (!p.copies_pass_through || !in_range) return;
  for (int j = 0; j < Config::kHeads; ++j) {
    if (Config::head(j, blockIdx.z) < p.num_heads) {
      copy_pass_through<Fragment>(p, heads, Config::head(j, blockIdx.z));
    }
  }
}

}  // namespace rotary::internal::cuda
