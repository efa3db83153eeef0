// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// The tuned rotation kernel for latency-bound launches, above all decoding steps, whose duration is
// the time from a block's start to its last store. A block handles heads of one token, from either
// operand, one head per thread, and computes all addresses before wait_on_dependent_grids().
#pragma once

#include <cstdint>

#include "cuda/device/rotate_vectorized.cuh"
#include "cuda/device/token_phase.cuh"

namespace rotary::internal::cuda {

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

/// RotationRow::read by shared-memory address.
template <class Fragment>
__device__ __forceinline__ void load_row(std::uint32_t from, std::uint32_t fragments,
                                         float (&to)[Fragment::kPairs]) {
  constexpr int kStep = RotationRow<Fragment>::kStep;
#pragma unroll
  for (int k = 0; k < Fragment::kPairs / kStep; ++k) {
    float vector[kStep];
    load_shared(from + k * fragments * (kStep * sizeof(float)), vector);
#pragma unroll
    for (int i = 0; i < kStep; ++i) to[k * kStep + i] = vector[i];
  }
}

/// Upper bound of a block's threads.
inline constexpr int kMaxTokenThreads = 320;

/// Block: [heads][fragments of a head]; grid: [splits of all operands' heads][batch][tokens].
template <class Fragment, Prefetch kPrefetch>
__global__ void __launch_bounds__(kMaxTokenThreads)
    rotate_tokens(const __grid_constant__ VectorizedParams p) {
  extern __shared__ __align__(16) float rows[];  // [cos, sin][row_size]
  if (p.overlaps) launch_dependent_grids();
  const auto x = static_cast<std::int32_t>(threadIdx.x);
  const auto token = static_cast<std::int32_t>(blockIdx.x);
  const auto batch = static_cast<std::int32_t>(blockIdx.y);
  const auto global_head = static_cast<std::int32_t>(blockIdx.z * blockDim.y + threadIdx.y);
  const bool second = global_head >= p.operands[0].heads;
  const VectorizedOperand& o = p.operands[second ? 1 : 0];
  const std::int32_t head = global_head - (second ? p.operands[0].heads : 0);
  const bool in_range = head < o.heads;
  const char* in = pack_address(
      o.in, batch * o.in_batch + token * o.in_token + head * o.in_head + p.first_pack + x);
  char* out = pack_address<kOutPackBytes<Fragment>>(
      o.out, batch * o.out_batch + token * o.out_token + head * o.out_head + p.first_pack + x);
  float* const c = rows;
  float* const s = rows + p.row_size;
  auto row_address =
      static_cast<std::uint32_t>(__cvta_generic_to_shared(c)) +
      threadIdx.x * static_cast<std::uint32_t>(RotationRow<Fragment>::kStep * sizeof(float));
  std::uint32_t i = threadIdx.y * blockDim.x + threadIdx.x;
  const auto count = static_cast<std::uint32_t>(p.pair_count);
  TokenPhase phase;
  if (i < count) phase.prepare(p, i);
  phase.materialize_address();
  materialize(in);
  materialize(out);
  materialize(row_address);
  if (kPrefetch == Prefetch::kFirst && is_prefetching_block(p.prefetch_blocks) && in_range) {
    prefetch_fragment<Fragment>(p, in);
  }
  wait_on_dependent_grids();

  phase.fetch(p.positions);
  typename Fragment::Data data;
  if (in_range) load_fragment<Fragment>(p, in, data);
  while (i < count) {
    store_cos_sin<Fragment>(p, phase.get(p.positions), i, c, s);
    i += blockDim.x * blockDim.y;
    if (i >= count) break;
    phase.prepare(p, i);
    phase.fetch(p.positions);
  }
  __syncthreads();

  if (!in_range) return;
  float cos[Fragment::kPairs];
  float sin[Fragment::kPairs];
  const auto fragments = static_cast<std::uint32_t>(p.fragments);
  load_row<Fragment>(row_address, fragments, cos);
  load_row<Fragment>(row_address + static_cast<std::uint32_t>(p.row_size) * 4, fragments, sin);
  const auto store_params = store_params_of<Fragment>(p, o);
  store_fragment<Fragment>(p, out, Fragment::rotate(data, cos, sin, store_params));
  if (p.pass_count == 0) return;
  const std::int32_t packs_before = p.first_pack + x;
  copy_pass_through<Fragment>(p, in - packs_before * 16,
                              out - packs_before * kOutPackBytes<Fragment>, store_params);
}

}  // namespace rotary::internal::cuda
