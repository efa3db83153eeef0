// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// The tuned rotation where the time from a block's start to its last store counts: decoding steps,
// which are over as soon as they have begun. A block takes heads of one token, whichever operand
// they are of, one of a thread, and knows all addresses before it waits for the launch before.
#pragma once

#include <cstdint>

#include "cuda/device/rotate_packs.cuh"

namespace rotary::internal::cuda {

/// The value is computed here, not later, where it is used.
template <typename T>
__device__ __forceinline__ void have_ready(T*& pointer) {
  asm volatile("" : "+l"(pointer));
}
__device__ __forceinline__ void have_ready(std::uint64_t& value) { asm volatile("" : "+l"(value)); }
__device__ __forceinline__ void have_ready(std::uint32_t& value) { asm volatile("" : "+r"(value)); }

__device__ __forceinline__ void load_shared(std::uint32_t from, float (&to)[4]) {
  asm volatile("ld.shared.v4.f32 {%0, %1, %2, %3}, [%4];"
               : "=f"(to[0]), "=f"(to[1]), "=f"(to[2]), "=f"(to[3])
               : "r"(from)
               : "memory");
}
__device__ __forceinline__ void load_shared(std::uint32_t from, float (&to)[2]) {
  asm volatile("ld.shared.v2.f32 {%0, %1}, [%2];"
               : "=f"(to[0]), "=f"(to[1])
               : "r"(from)
               : "memory");
}

/// What Row::read reads, found by its address in shared memory.
template <class Unit>
__device__ __forceinline__ void read_row(std::uint32_t from, std::uint32_t parts,
                                         float (&to)[Unit::kPairs]) {
  constexpr int kStep = Row<Unit>::kStep;
#pragma unroll
  for (int k = 0; k < Unit::kPairs / kStep; ++k) {
    float piece[kStep];
    load_shared(from + k * parts * (kStep * sizeof(float)), piece);
#pragma unroll
    for (int i = 0; i < kStep; ++i) to[k * kStep + i] = piece[i];
  }
}

/// The phase of one pair at the block's token. As Seed, in three steps.
class TokenPhase {
 public:
  /// Parameters only: may come before the launch before has ended.
  __device__ __forceinline__ void prepare(const PackParams& p, std::uint32_t i) {
    const PackPositions& at = p.positions;
    fraction_ = as_memory(p.fractions)[i];
    if (at.ids == nullptr) return;
    const std::int32_t axis = p.axes > 1 ? as_memory(p.axis_of)[i] : 0;
    const std::int32_t place = axis * at.axis_stride +
                               static_cast<std::int32_t>(blockIdx.y) * at.batch_stride +
                               static_cast<std::int32_t>(blockIdx.x) * at.token_stride;
    id_ = at.ids + static_cast<std::int64_t>(place) * (at.narrow ? 4 : 8);
  }
  __device__ __forceinline__ void have_address() { have_ready(id_); }

  __device__ __forceinline__ void fetch(const PackPositions& at) {
    if (id_ == nullptr) return;
    low_ = load_word(id_);
    if (!at.narrow) high_ = load_word(id_ + 4);
  }
  __device__ __forceinline__ std::uint64_t get(const PackPositions& at) const {
    const auto token = static_cast<std::int64_t>(blockIdx.x);
    if (__builtin_expect(at.boundaries != nullptr, 0)) {
      return static_cast<std::uint64_t>(packed_position(at, token)) * fraction_;
    }
    // What is known without the id, while that is on its way.
    std::uint64_t sum = static_cast<std::uint64_t>(at.start + at.step * token) * fraction_;
    have_ready(sum);
    if (id_ == nullptr) return sum;
    const std::uint32_t upper = at.narrow ? (low_ >> 31) * 0xffffffffu : high_;
    return sum + (static_cast<std::uint64_t>(upper) << 32 | low_) * fraction_;
  }

 private:
  std::uint64_t fraction_ = 0;
  const char* id_ = nullptr;  // ids[axis, batch, token]
  std::uint32_t low_ = 0;
  std::uint32_t high_ = 0;
};

/// Most threads of a block.
inline constexpr int kTokenThreads = 320;

/// x is the unit in the head, y the head; blocks run over tokens, batch rows and shares of the
/// heads of all operands.
template <class Unit, Prefetch kPrefetch>
__global__ void __launch_bounds__(kTokenThreads)
    rotate_tokens(const __grid_constant__ PackParams p) {
  extern __shared__ __align__(16) float rows[];  // [cos, sin][row_size]
  if (p.overlaps) let_next_launch_begin();
  const auto x = static_cast<std::int32_t>(threadIdx.x);
  const auto token = static_cast<std::int32_t>(blockIdx.x);
  const auto batch = static_cast<std::int32_t>(blockIdx.y);
  const auto counted = static_cast<std::int32_t>(blockIdx.z * blockDim.y + threadIdx.y);
  const bool second = counted >= p.operands[0].heads;
  const PackOperand& o = p.operands[second ? 1 : 0];
  const std::int32_t head = counted - (second ? p.operands[0].heads : 0);
  const bool inside = head < o.heads;
  const char* in =
      pack_address(o.in, batch * o.in_batch + token * o.in_token + head * o.in_head + p.place + x);
  char* out = pack_address<kOutBytes<Unit>>(
      o.out, batch * o.out_batch + token * o.out_token + head * o.out_head + p.place + x);
  float* const c = rows;
  float* const s = rows + p.row_size;
  auto part = static_cast<std::uint32_t>(__cvta_generic_to_shared(c)) +
              threadIdx.x * static_cast<std::uint32_t>(Row<Unit>::kStep * sizeof(float));
  std::uint32_t i = threadIdx.y * blockDim.x + threadIdx.x;
  const auto count = static_cast<std::uint32_t>(p.pair_count);
  TokenPhase phase;
  if (i < count) phase.prepare(p, i);
  phase.have_address();
  have_ready(in);
  have_ready(out);
  have_ready(part);
  if (kPrefetch == Prefetch::kFirst && is_among_first(p.first_blocks) && inside) {
    prefetch_unit<Unit>(p, in);
  }
  wait_for_previous_launch();

  phase.fetch(p.positions);
  typename Unit::Data data;
  if (inside) {
    data.packs[0] = load_pack(in);
    if constexpr (Unit::kPacks == 2) data.packs[1] = load_pack(in + p.distance);
  }
  while (i < count) {
    make_z<Unit>(p, phase.get(p.positions), i, c, s);
    i += blockDim.x * blockDim.y;
    if (i >= count) break;
    phase.prepare(p, i);
    phase.fetch(p.positions);
  }
  __syncthreads();

  if (!inside) return;
  float cos[Unit::kPairs];
  float sin[Unit::kPairs];
  const auto units = static_cast<std::uint32_t>(p.units);
  read_row<Unit>(part, units, cos);
  read_row<Unit>(part + static_cast<std::uint32_t>(p.row_size) * 4, units, sin);
  const auto target = target_of<Unit>(p, o);
  const auto turned = Unit::turn(data, cos, sin, target);
  store_pack(out, turned.packs[0]);
  if constexpr (Unit::kPacks == 2) {
    store_pack(out + p.distance * kOutBytes<Unit> / 16, turned.packs[1]);
  }
  if (p.rest_count == 0) return;
  const std::int32_t before = p.place + x;
  copy_rest<Unit>(p, in - before * 16, out - before * kOutBytes<Unit>, target);
}

}  // namespace rotary::internal::cuda
