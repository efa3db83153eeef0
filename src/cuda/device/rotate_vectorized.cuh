// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// The tuned rotation kernel, for the common case only: two operands of 16-byte packs with 32-bit
// strides and exact angles at integer positions. A block handles one operand, so that its accesses
// are contiguous and its address arithmetic is uniform. Otherwise it works like rotate_heads.cuh.
#pragma once

#include <cstdint>
#include <type_traits>

#include "cuda/device/cos_sin.cuh"
#include "cuda/device/float8.cuh"
#include "cuda/device/fragments.cuh"
#include "cuda/device/grid_dependency.cuh"
#include "cuda/device/kernel_config.cuh"
#include "cuda/device/packed.cuh"
#include "cuda/device/phase.cuh"
#include "cuda/device/positions.cuh"
#include "cuda/device/rotation_row.cuh"
#include "cuda/device/shuffle_fragment.cuh"
#include "cuda/vectorized_params.h"

namespace rotary::internal::cuda {

__device__ __forceinline__ std::int64_t packed_position(const VectorizedPositions& p,
                                                        std::int64_t token) {
  const DType type = p.is_int32 ? DType::kInt32 : DType::kInt64;
  const std::int32_t sequence = sequence_of(p.boundaries, type, p.sequences, token);
  const std::int64_t start = p.first == nullptr ? 0 : load_integer(p.first, type, sequence);
  return start + p.step * (token - load_integer(p.boundaries, type, sequence));
}

/// Inputs of one pair's phase, fetched as early as possible. Nothing is computed from them before
/// phase(), so that no thread stalls on these loads before its other loads are issued.
struct PhaseInputs {
  std::uint64_t fraction;
  std::int32_t axis;
  std::uint32_t low;   // lower word of ids[axis, batch, token]
  std::uint32_t high;  // upper word; unused for int32 ids

  /// Reads parameters only, so it may precede wait_on_dependent_grids().
  __device__ __forceinline__ void fetch_frequency(const VectorizedParams& p, std::uint32_t i) {
    fraction = as_generic_memory(p.fractions)[i];
    axis = p.axes > 1 ? as_generic_memory(p.axis_of)[i] : 0;
  }
  __device__ __forceinline__ void fetch_position(const VectorizedPositions& p, std::int32_t token) {
    fetch_position(p, token, static_cast<std::int32_t>(blockIdx.y));
  }
  __device__ __forceinline__ void fetch_position(const VectorizedPositions& p, std::int32_t token,
                                                 std::int32_t batch) {
    if (p.ids == nullptr) return;
    const std::int32_t at = axis * p.axis_stride + batch * p.batch_stride + token * p.token_stride;
    const char* const from = p.ids + static_cast<std::int64_t>(at) * (p.is_int32 ? 4 : 8);
    low = *reinterpret_cast<const std::uint32_t*>(from);
    if (!p.is_int32) high = *reinterpret_cast<const std::uint32_t*>(from + 4);
  }
  __device__ __forceinline__ std::int64_t position(const VectorizedPositions& p,
                                                   std::int32_t token) const {
    std::int64_t position = p.start + static_cast<std::int64_t>(p.step) * token;
    if (p.ids != nullptr) {
      const std::uint32_t upper = p.is_int32 ? (low >> 31) * 0xffffffffu : high;
      position += static_cast<std::int64_t>(static_cast<std::uint64_t>(upper) << 32 | low);
    }
    if (__builtin_expect(p.boundaries != nullptr, 0)) position = packed_position(p, token);
    return position;
  }
  __device__ __forceinline__ std::uint64_t phase(const VectorizedPositions& p,
                                                 std::int32_t token) const {
    return static_cast<std::uint64_t>(position(p, token)) * fraction;
  }
};

/// Writes cos and sin of pair i to the rotation row.
template <class Fragment>
__device__ __forceinline__ void store_cos_sin(const VectorizedParams& p, std::uint64_t phase,
                                              std::uint32_t i, float* c, float* s) {
  const CosSin<float> z = cos_sin_on_device<float>(phase);
  const std::uint32_t fragments = Fragment::row_fragments(static_cast<std::uint32_t>(p.fragments));
  const std::uint32_t at = RotationRow<Fragment>::offset(i, fragments);
  c[at] = mul_rn(z.cos, p.cos_magnitude);
  s[at] = mul_rn(z.sin, p.sin_magnitude);
}

template <int kBytes = 16, typename Char>
__device__ __forceinline__ Char* pack_address(Char* base, std::int32_t packs) {
  return base + static_cast<std::int64_t>(packs) * kBytes;
}

/// Prefetches the cache lines of a fragment; of the threads on a 128-byte line, only the first
/// does.
template <class Fragment>
__device__ __forceinline__ void prefetch_fragment(const VectorizedParams& p, const char* fragment) {
  if ((reinterpret_cast<std::uintptr_t>(fragment) & 127) >= 16) return;
  prefetch_l2(fragment);
  if constexpr (Fragment::kPacks == 2) prefetch_l2(fragment + p.pack_stride);
}

/// Bytes that one 16-byte input pack becomes in the output type.
template <class Fragment>
inline constexpr int kOutPackBytes =
    std::is_same_v<typename Fragment::OutElement, Float8> ? Fragment::kCopyElements : 16;

template <class Fragment>
__device__ __forceinline__ void load_fragment(const VectorizedParams& p, const char* from,
                                              typename Fragment::Data& data) {
  data.packs[0] = load_packed(from);
  if constexpr (Fragment::kPacks == 2) data.packs[1] = load_packed(from + p.pack_stride);
}

template <class Fragment, class Rotated>
__device__ __forceinline__ void store_fragment(const VectorizedParams& p, char* to,
                                               const Rotated& rotated) {
  store_packed(to, rotated.packs[0]);
  if constexpr (Fragment::kPacks == 2) {
    store_packed(to + p.pack_stride * kOutPackBytes<Fragment> / 16, rotated.packs[1]);
  }
}

/// Copies the packs of one head outside the rotary slice.
template <class Fragment>
__device__ __forceinline__ void copy_pass_through(
    const VectorizedParams& p, const char* in, char* out,
    const typename Fragment::StoreParams& store_params) {
  const Head<const char*> from{in, 0};
  const Head<char*> to{out, 0};
  for (auto i = static_cast<std::int32_t>(threadIdx.x); i < p.pass_count;
       i += static_cast<std::int32_t>(blockDim.x)) {
    Fragment::copy(from, to, (i < p.pass_before ? i : i + p.pass_skip) * Fragment::kCopyElements,
                   store_params);
  }
}

template <class Fragment>
__device__ __forceinline__ typename Fragment::StoreParams store_params_of(
    const VectorizedParams& p, const VectorizedOperand& o) {
  if constexpr (std::is_same_v<typename Fragment::OutElement, Float8>) {
    return {o.out_scale == nullptr ? 1.0f : *o.out_scale, p.e5m2 ? __NV_E5M2 : __NV_E4M3};
  } else {
    return {};
  }
}

/// Block: [depth][rows][fragments of a head]. threadIdx.z encodes token and head group as the
/// operand says, threadIdx.y the head in its group. Grid: [head splits][batch][tiles]; blockIdx.x
/// covers the token tiles of the first operand, then those of the second.
template <class Fragment, class Config>
__global__ void __launch_bounds__(Config::kMaxThreads, Config::kMinBlocks)
    rotate_vectorized(const __grid_constant__ VectorizedParams p) {
  extern __shared__ __align__(16) float rows[];  // [tokens of the block][cos, sin][row_size]
  const bool second = blockIdx.x >= p.operand0_tiles;
  const VectorizedOperand& o = p.operands[second ? 1 : 0];
  const std::uint32_t tile = blockIdx.x - (second ? p.operand0_tiles : 0u);
  const auto x = static_cast<std::int32_t>(threadIdx.x);
  const auto z = static_cast<std::int32_t>(threadIdx.z);
  const std::int32_t tile_token = z & o.token_mask;
  const std::int32_t group = z >> o.group_shift;
  const std::int32_t token = static_cast<std::int32_t>(tile) * o.tokens + tile_token;
  float* const c = rows + tile_token * 2 * p.row_size;
  float* const s = c + p.row_size;
  const bool in_range = token < p.tokens;
  const auto count = in_range ? static_cast<std::uint32_t>(p.pair_count) : 0u;
  std::uint32_t i = (group * blockDim.y + threadIdx.y) * blockDim.x + threadIdx.x;
  PhaseInputs inputs{};
  if (i < count) inputs.fetch_frequency(p, i);
  const auto head = [&](int j) { return Config::head(j, blockIdx.z * o.groups + group); };
  const auto batch = static_cast<std::int32_t>(blockIdx.y);
  const std::int32_t in = batch * o.in_batch + token * o.in_token + p.first_pack + x;
  typename Fragment::Data data[Config::kHeads];
  if (p.overlaps) launch_dependent_grids();
  if (Config::kPrefetch == Prefetch::kAll ||
      (Config::kPrefetch == Prefetch::kFirst && is_prefetching_block(p.prefetch_blocks))) {
#pragma unroll
    for (int j = 0; j < Config::kHeads; ++j) {
      if (!in_range || head(j) >= o.heads) continue;
      prefetch_fragment<Fragment>(p, pack_address(o.in, in + head(j) * o.in_head));
    }
  }
  wait_on_dependent_grids();

  // `in_range` is tested inside this loop and the storing loop, not around them: hoisted, the
  // compiler issues a thread's loads back to back, which was measured 10% slower for interleaved
  // pairs.
  if (i < count) inputs.fetch_position(p.positions, token);
#pragma unroll
  for (int j = 0; j < Config::kHeads; ++j) {
    if (!in_range || head(j) >= o.heads) continue;
    load_fragment<Fragment>(p, pack_address(o.in, in + head(j) * o.in_head), data[j]);
  }
  while (i < count) {
    store_cos_sin<Fragment>(p, inputs.phase(p.positions, token), i, c, s);
    i += static_cast<std::uint32_t>(o.row_threads);
    if (i >= count) break;
    inputs.fetch_frequency(p, i);
    inputs.fetch_position(p.positions, token);
  }
  __syncthreads();

  const std::int32_t out = batch * o.out_batch + token * o.out_token + p.first_pack + x;
  float cos[Fragment::kPairs];
  float sin[Fragment::kPairs];
  const std::uint32_t row_fragments =
      Fragment::row_fragments(static_cast<std::uint32_t>(p.fragments));
  RotationRow<Fragment>::read(c, Fragment::row_fragment(threadIdx.x), row_fragments, cos);
  RotationRow<Fragment>::read(s, Fragment::row_fragment(threadIdx.x), row_fragments, sin);
  const auto store_params = store_params_of<Fragment>(p, o);
#pragma unroll
  for (int j = 0; j < Config::kHeads; ++j) {
    const auto rotated = Fragment::rotate(data[j], cos, sin, store_params);
    if (!in_range || head(j) >= o.heads) continue;
    store_fragment<Fragment>(
        p, pack_address<kOutPackBytes<Fragment>>(o.out, out + head(j) * o.out_head), rotated);
  }
  if (p.pass_count == 0 || !in_range) return;
  for (int j = 0; j < Config::kHeads; ++j) {
    if (head(j) >= o.heads) continue;
    copy_pass_through<Fragment>(
        p, pack_address(o.in, in - p.first_pack - x + head(j) * o.in_head),
        pack_address<kOutPackBytes<Fragment>>(o.out, out - p.first_pack - x + head(j) * o.out_head),
        store_params);
  }
}

}  // namespace rotary::internal::cuda
