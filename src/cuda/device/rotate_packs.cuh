// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// The tuned rotation: as rotate.cuh, for the usual case and nothing else. A block keeps to one
// operand, so that what it reads and writes lies together and finding it is the same for all its
// threads.
#pragma once

#include <cstdint>
#include <type_traits>

#include "cuda/device/blocks.cuh"
#include "cuda/device/exchanged.cuh"
#include "cuda/device/float8.cuh"
#include "cuda/device/memory.cuh"
#include "cuda/device/phase.cuh"
#include "cuda/device/positions.cuh"
#include "cuda/device/row.cuh"
#include "cuda/device/units.cuh"
#include "cuda/pack_params.h"

namespace rotary::internal::cuda {

__device__ __forceinline__ std::int64_t packed_position(const PackPositions& p,
                                                        std::int64_t token) {
  const DType type = p.narrow ? DType::kInt32 : DType::kInt64;
  const std::int32_t sequence = sequence_of(p.boundaries, type, p.sequences, token);
  const std::int64_t start = p.first == nullptr ? 0 : load_integer(p.first, type, sequence);
  return start + p.step * (token - load_integer(p.boundaries, type, sequence));
}

/// What a thread fetches for one pair's angle, as early as may be. Nothing is computed from it
/// before it is wanted, so that no thread waits for it in between.
struct Seed {
  std::uint64_t fraction;
  std::int32_t axis;
  std::uint32_t low;  // the halves of ids[axis, batch, token]; no high one where they are narrow
  std::uint32_t high;

  /// Parameters only: may come before the launch before has ended.
  __device__ __forceinline__ void fetch_frequency(const PackParams& p, std::uint32_t i) {
    fraction = as_memory(p.fractions)[i];
    axis = p.axes > 1 ? as_memory(p.axis_of)[i] : 0;
  }
  __device__ __forceinline__ void fetch_position(const PackPositions& p, std::int32_t token) {
    if (p.ids == nullptr) return;
    const std::int32_t at = axis * p.axis_stride +
                            static_cast<std::int32_t>(blockIdx.y) * p.batch_stride +
                            token * p.token_stride;
    const char* const from = p.ids + static_cast<std::int64_t>(at) * (p.narrow ? 4 : 8);
    low = *reinterpret_cast<const std::uint32_t*>(from);
    if (!p.narrow) high = *reinterpret_cast<const std::uint32_t*>(from + 4);
  }
  __device__ __forceinline__ std::uint64_t phase(const PackPositions& p, std::int32_t token) const {
    std::int64_t position = p.start + static_cast<std::int64_t>(p.step) * token;
    if (p.ids != nullptr) {
      const std::uint32_t upper = p.narrow ? (low >> 31) * 0xffffffffu : high;
      position += static_cast<std::int64_t>(static_cast<std::uint64_t>(upper) << 32 | low);
    }
    if (__builtin_expect(p.boundaries != nullptr, 0)) position = packed_position(p, token);
    return static_cast<std::uint64_t>(position) * fraction;
  }
};

template <class Unit>
__device__ __forceinline__ void make_z(const PackParams& p, std::uint64_t phase, std::uint32_t i,
                                       float* c, float* s) {
  const CosSin<float> z = cos_sin_on_device<float>(phase);
  const std::uint32_t at = Row<Unit>::at(i, Unit::row_parts(static_cast<std::uint32_t>(p.units)));
  c[at] = product(z.cos, p.cos_size);
  s[at] = product(z.sin, p.sin_size);
}

template <int kBytes = 16, typename Char>
__device__ __forceinline__ Char* pack_address(Char* base, std::int32_t packs) {
  return base + static_cast<std::int64_t>(packs) * kBytes;
}

/// Asks for the lines of a unit: one thread a line, 128 bytes.
template <class Unit>
__device__ __forceinline__ void prefetch_unit(const PackParams& p, const char* unit) {
  if ((reinterpret_cast<std::uintptr_t>(unit) & 127) >= 16) return;
  prefetch_line(unit);
  if constexpr (Unit::kPacks == 2) prefetch_line(unit + p.distance);
}

/// Bytes of 16 bytes as they are written.
template <class Unit>
inline constexpr int kOutBytes =
    std::is_same_v<typename Unit::OutElement, Float8> ? Unit::kPack : 16;

/// Packs outside the rotary slice of one head.
template <class Unit>
__device__ __forceinline__ void copy_rest(const PackParams& p, const char* in, char* out,
                                          const typename Unit::Target& target) {
  const Head<const char*> from{in, 0};
  const Head<char*> to{out, 0};
  for (auto i = static_cast<std::int32_t>(threadIdx.x); i < p.rest_count;
       i += static_cast<std::int32_t>(blockDim.x)) {
    Unit::copy(from, to, (i < p.rest_before ? i : i + p.rest_skip) * Unit::kPack, target);
  }
}

template <class Unit>
__device__ __forceinline__ typename Unit::Target target_of(const PackParams& p,
                                                           const PackOperand& o) {
  if constexpr (std::is_same_v<typename Unit::OutElement, Float8>) {
    return {o.out_scale == nullptr ? 1.0f : *o.out_scale, p.e5m2 ? __NV_E5M2 : __NV_E4M3};
  } else {
    return {};
  }
}

/// x is the unit in the head, y the head, z tokens and groups of heads as the operand says; blocks
/// run over the tokens of the first operand and then of the second, over batch rows and shares of
/// the heads.
template <class Unit, class Build>
__global__ void __launch_bounds__(Build::kThreads, Build::kBlocks)
    rotate_packs(const __grid_constant__ PackParams p) {
  extern __shared__ __align__(16) float rows[];  // [tokens of the block][cos, sin][row_size]
  const bool second = blockIdx.x >= p.first_tiles;
  const PackOperand& o = p.operands[second ? 1 : 0];
  const std::uint32_t tile = blockIdx.x - (second ? p.first_tiles : 0u);
  const auto x = static_cast<std::int32_t>(threadIdx.x);
  const auto z = static_cast<std::int32_t>(threadIdx.z);
  const std::int32_t slice = z & o.token_mask;
  const std::int32_t group = z >> o.group_shift;
  const std::int32_t token = static_cast<std::int32_t>(tile) * o.tokens + slice;
  float* const c = rows + slice * 2 * p.row_size;
  float* const s = c + p.row_size;
  const bool inside = token < p.tokens;
  const auto count = inside ? static_cast<std::uint32_t>(p.pair_count) : 0u;
  std::uint32_t i = (group * blockDim.y + threadIdx.y) * blockDim.x + threadIdx.x;
  Seed seed{};
  if (i < count) seed.fetch_frequency(p, i);
  const auto head = [&](int j) { return Build::head(j, blockIdx.z * o.groups + group); };
  const auto batch = static_cast<std::int32_t>(blockIdx.y);
  const std::int32_t in = batch * o.in_batch + token * o.in_token + p.place + x;
  typename Unit::Data data[Build::kHeads];
  if (p.overlaps) let_next_launch_begin();
  if (Build::kPrefetch == Prefetch::kAll ||
      (Build::kPrefetch == Prefetch::kFirst && is_among_first(p.first_blocks))) {
#pragma unroll
    for (int j = 0; j < Build::kHeads; ++j) {
      if (!inside || head(j) >= o.heads) continue;
      prefetch_unit<Unit>(p, pack_address(o.in, in + head(j) * o.in_head));
    }
  }
  wait_for_previous_launch();

  // `inside` is tested in this loop and the one that stores, not around them: there the compiler
  // sends a thread's loads back to back, and interleaved was measured a tenth slower.
  if (i < count) seed.fetch_position(p.positions, token);
#pragma unroll
  for (int j = 0; j < Build::kHeads; ++j) {
    if (!inside || head(j) >= o.heads) continue;
    const char* const unit = pack_address(o.in, in + head(j) * o.in_head);
    data[j].packs[0] = load_pack(unit);
    if constexpr (Unit::kPacks == 2) data[j].packs[1] = load_pack(unit + p.distance);
  }
  while (i < count) {
    make_z<Unit>(p, seed.phase(p.positions, token), i, c, s);
    i += static_cast<std::uint32_t>(o.threads);
    if (i >= count) break;
    seed.fetch_frequency(p, i);
    seed.fetch_position(p.positions, token);
  }
  __syncthreads();

  const std::int32_t out = batch * o.out_batch + token * o.out_token + p.place + x;
  float cos[Unit::kPairs];
  float sin[Unit::kPairs];
  const std::uint32_t parts = Unit::row_parts(static_cast<std::uint32_t>(p.units));
  Row<Unit>::read(c, Unit::row_part(threadIdx.x), parts, cos);
  Row<Unit>::read(s, Unit::row_part(threadIdx.x), parts, sin);
  const auto target = target_of<Unit>(p, o);
#pragma unroll
  for (int j = 0; j < Build::kHeads; ++j) {
    const auto turned = Unit::turn(data[j], cos, sin, target);
    if (!inside || head(j) >= o.heads) continue;
    char* const unit = pack_address<kOutBytes<Unit>>(o.out, out + head(j) * o.out_head);
    store_pack(unit, turned.packs[0]);
    if constexpr (Unit::kPacks == 2) {
      store_pack(unit + p.distance * kOutBytes<Unit> / 16, turned.packs[1]);
    }
  }
  if (p.rest_count == 0 || !inside) return;
  for (int j = 0; j < Build::kHeads; ++j) {
    if (head(j) >= o.heads) continue;
    copy_rest<Unit>(p, pack_address(o.in, in - p.place - x + head(j) * o.in_head),
                    pack_address<kOutBytes<Unit>>(o.out, out - p.place - x + head(j) * o.out_head),
                    target);
  }
}

}  // namespace rotary::internal::cuda
