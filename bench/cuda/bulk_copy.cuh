// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// The version with bulk copies (cp.async.bulk): TMA loads whole tokens into a ring of shared-memory
// stages, they are rotated in place, and TMA stores them. Hopper and later.
#pragma once

#include <cstdint>

#include "ladder_kernels.cuh"

namespace ladder_kernels {

__device__ __forceinline__ std::uint32_t shared_address(const void* p) {
  return static_cast<std::uint32_t>(__cvta_generic_to_shared(p));
}

__device__ __forceinline__ void barrier_init(std::uint64_t* barrier) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(shared_address(barrier)) : "memory");
}

__device__ __forceinline__ void barrier_expect(std::uint64_t* barrier, std::uint32_t bytes) {
  asm volatile(
      "mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(shared_address(barrier)),
      "r"(bytes)
      : "memory");
}

__device__ __forceinline__ void barrier_wait(std::uint64_t* barrier, std::uint32_t parity) {
  asm volatile(
      "{\n"
      ".reg .pred done;\n"
      "again:\n"
      "mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n"
      "@!done bra again;\n"
      "}" ::"r"(shared_address(barrier)),
      "r"(parity)
      : "memory");
}

__device__ __forceinline__ void bulk_load(void* to, const void* from, std::uint32_t bytes,
                                          std::uint64_t* barrier) {
  asm volatile(
      "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::
          "r"(shared_address(to)),
      "l"(from), "r"(bytes), "r"(shared_address(barrier))
      : "memory");
}

__device__ __forceinline__ void bulk_store(void* to, const void* from, std::uint32_t bytes) {
  asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;" ::"l"(to),
               "r"(shared_address(from)), "r"(bytes)
               : "memory");
}

/// Rows of a persistent block: block b handles the rows b * first + i * step for i < count. A stage
/// holds `stage_rows` consecutive rows.
struct TileSchedule {
  std::int64_t first;
  std::int64_t step;
  int count;
  int stage_rows;
  int stages;
};

constexpr int kMaxStages = 16;

/// A stage in shared memory: [stage_rows x q heads, stage_rows x k heads].
template <class E>
struct Stage {
  const LadderParams& p;
  const TileSchedule& schedule;
  std::uint32_t bytes[2];  // per row of an operand

  __device__ Stage(const LadderParams& params, const TileSchedule& tiles)
      : p(params), schedule(tiles) {
    for (int o = 0; o < 2; ++o) {
      bytes[o] = p.heads[o] * 2 * p.pairs * static_cast<std::uint32_t>(sizeof(typename E::Storage));
    }
  }
  __device__ std::uint32_t size() const { return schedule.stage_rows * (bytes[0] + bytes[1]); }
  __device__ std::uint32_t rows(std::int64_t row) const {
    return static_cast<std::uint32_t>(
        min(static_cast<std::int64_t>(schedule.stage_rows), p.rows - row));
  }
  __device__ void load(std::int64_t row, char* to, std::uint64_t* barrier) const {
    const std::uint32_t n = rows(row);
    barrier_expect(barrier, n * (bytes[0] + bytes[1]));
    bulk_load(to, static_cast<const char*>(p.in[0]) + row * bytes[0], n * bytes[0], barrier);
    bulk_load(to + schedule.stage_rows * bytes[0],
              static_cast<const char*>(p.in[1]) + row * bytes[1], n * bytes[1], barrier);
  }
  __device__ void store(std::int64_t row, const char* from) const {
    const std::uint32_t n = rows(row);
    bulk_store(static_cast<char*>(p.out[0]) + row * bytes[0], from, n * bytes[0]);
    bulk_store(static_cast<char*>(p.out[1]) + row * bytes[1], from + schedule.stage_rows * bytes[0],
               n * bytes[1]);
    asm volatile("cp.async.bulk.commit_group;" ::: "memory");
  }
};

/// threadIdx.x is the fragment in the head, y strides over heads, z is the row of the stage.
template <class E, class Fragment>
__device__ __forceinline__ void rotate_stage(const LadderParams& p, const TileSchedule& schedule,
                                             char* stage, const float* cos_sin) {
  using Storage = typename E::Storage;
  const int x = threadIdx.x;
  const int g = threadIdx.z;
  const int dim = 2 * p.pairs;
  const int heads = p.heads[0] + p.heads[1];
  const float* c = cos_sin + g * 2 * p.pairs + Fragment::row_offset(x, p.pairs);
  auto* const base = reinterpret_cast<Storage*>(stage);
  for (int h = threadIdx.y; h < heads; h += blockDim.y) {
    const int at = h < p.heads[0]
                       ? g * p.heads[0] + h
                       : schedule.stage_rows * p.heads[0] + g * p.heads[1] + h - p.heads[0];
    Storage* const head = base + at * dim;
    Packed<16> v[Fragment::kPacks];
    for (int k = 0; k < Fragment::kPacks; ++k) {
      v[k] = *reinterpret_cast<Packed<16>*>(head + Fragment::at(x, k, p.pairs));
    }
    Fragment::rotate(v, c, c + p.pairs, x, p.pairs);
    for (int k = 0; k < Fragment::kPacks; ++k) {
      *reinterpret_cast<Packed<16>*>(head + Fragment::at(x, k, p.pairs)) = v[k];
    }
  }
}

template <class E, class Fragment>
__global__ void __launch_bounds__(512) bulk_copy(const __grid_constant__ LadderParams p,
                                                 const __grid_constant__ TileSchedule schedule) {
  extern __shared__ __align__(128) char memory[];
  __shared__ alignas(16) float rows[2][4 * 128];
  __shared__ std::uint64_t full[kMaxStages];
  const Stage<E> stage(p, schedule);
  const int thread = threadIdx.y * blockDim.x + threadIdx.x;
  const bool is_leader = thread == 0 && threadIdx.z == 0;
  const std::int64_t begin = blockIdx.x * schedule.first;
  const auto row_of = [&](int i) { return begin + i * schedule.step; };
  const auto fill = [&](int i) {
    const std::int64_t row = row_of(i) + threadIdx.z;
    if (i >= schedule.count || row >= p.rows) return;
    float* const c = rows[i & 1] + threadIdx.z * 2 * p.pairs;
    fill_row(p, row, static_cast<std::uint32_t>(row) % static_cast<std::uint32_t>(p.tokens), thread,
             blockDim.x * blockDim.y, c, c + p.pairs);
  };
  const auto load = [&](int i) {
    if (i >= schedule.count || row_of(i) >= p.rows) return;
    stage.load(row_of(i), memory + (i % schedule.stages) * stage.size(),
               &full[i % schedule.stages]);
  };
  if (is_leader) {
    for (int i = 0; i < schedule.stages; ++i) barrier_init(&full[i]);
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    for (int i = 0; i + 1 < schedule.stages; ++i) load(i);
  }
  fill(0);
  __syncthreads();
  for (int i = 0; i < schedule.count && row_of(i) < p.rows; ++i) {
    char* const here = memory + (i % schedule.stages) * stage.size();
    fill(i + 1);
    barrier_wait(&full[i % schedule.stages], (i / schedule.stages) & 1);
    rotate_stage<E, Fragment>(p, schedule, here, rows[i & 1]);
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
    __syncthreads();
    if (is_leader) {
      stage.store(row_of(i), here);
      asm volatile("cp.async.bulk.wait_group.read 1;" ::: "memory");
      load(i + schedule.stages - 1);
    }
  }
  if (is_leader) asm volatile("cp.async.bulk.wait_group.read 0;" ::: "memory");
}

}  // namespace ladder_kernels
