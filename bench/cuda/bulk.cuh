// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// The rung by bulk copies: the copy engine brings whole tokens into shared memory, they turn there,
// and the engine takes them back. Hopper and later.
#pragma once

#include <cstdint>

#include "rungs.cuh"

namespace rungs {

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

/// How tokens fall to blocks: block b takes the rows b * first + i * step for i < count. A stage
/// holds `group` rows that follow each other.
struct Split {
  std::int64_t first;
  std::int64_t step;
  int count;
  int group;
  int stages;
};

constexpr int kMostStages = 16;

/// A stage in shared memory is [group x q heads, group x k heads].
template <class E>
struct Stage {
  const Call& a;
  const Split& split;
  std::uint32_t bytes[2];  // of an operand's row

  __device__ Stage(const Call& call, const Split& how) : a(call), split(how) {
    for (int o = 0; o < 2; ++o) {
      bytes[o] = a.heads[o] * 2 * a.pairs * static_cast<std::uint32_t>(sizeof(typename E::Storage));
    }
  }
  __device__ std::uint32_t size() const { return split.group * (bytes[0] + bytes[1]); }
  __device__ std::uint32_t rows(std::int64_t row) const {
    return static_cast<std::uint32_t>(min(static_cast<std::int64_t>(split.group), a.rows - row));
  }
  __device__ void load(std::int64_t row, char* to, std::uint64_t* barrier) const {
    const std::uint32_t n = rows(row);
    barrier_expect(barrier, n * (bytes[0] + bytes[1]));
    bulk_load(to, static_cast<const char*>(a.in[0]) + row * bytes[0], n * bytes[0], barrier);
    bulk_load(to + split.group * bytes[0], static_cast<const char*>(a.in[1]) + row * bytes[1],
              n * bytes[1], barrier);
  }
  __device__ void store(std::int64_t row, const char* from) const {
    const std::uint32_t n = rows(row);
    bulk_store(static_cast<char*>(a.out[0]) + row * bytes[0], from, n * bytes[0]);
    bulk_store(static_cast<char*>(a.out[1]) + row * bytes[1], from + split.group * bytes[0],
               n * bytes[1]);
    asm volatile("cp.async.bulk.commit_group;" ::: "memory");
  }
};

/// x is the unit in the head, y runs over heads, z over the rows of a stage.
template <class E, class Turn>
__device__ __forceinline__ void turn_stage(const Call& a, const Split& split, char* stage,
                                           const float* z) {
  using Storage = typename E::Storage;
  const int x = threadIdx.x;
  const int g = threadIdx.z;
  const int dim = 2 * a.pairs;
  const int heads = a.heads[0] + a.heads[1];
  const float* c = z + g * 2 * a.pairs + Turn::first_z(x, a.pairs);
  auto* const base = reinterpret_cast<Storage*>(stage);
  for (int h = threadIdx.y; h < heads; h += blockDim.y) {
    const int at = h < a.heads[0] ? g * a.heads[0] + h
                                  : split.group * a.heads[0] + g * a.heads[1] + h - a.heads[0];
    Storage* const head = base + at * dim;
    Pack<16> v[Turn::kPacks];
    for (int k = 0; k < Turn::kPacks; ++k) {
      v[k] = *reinterpret_cast<Pack<16>*>(head + Turn::at(x, k, a.pairs));
    }
    Turn::turn(v, c, c + a.pairs, x, a.pairs);
    for (int k = 0; k < Turn::kPacks; ++k) {
      *reinterpret_cast<Pack<16>*>(head + Turn::at(x, k, a.pairs)) = v[k];
    }
  }
}

template <class E, class Turn>
__global__ void __launch_bounds__(512)
    bulk(const __grid_constant__ Call a, const __grid_constant__ Split split) {
  extern __shared__ __align__(128) char memory[];
  __shared__ alignas(16) float z[2][4 * 128];
  __shared__ std::uint64_t full[kMostStages];
  const Stage<E> stage(a, split);
  const int slice = threadIdx.y * blockDim.x + threadIdx.x;
  const bool leads = slice == 0 && threadIdx.z == 0;
  const std::int64_t begin = blockIdx.x * split.first;
  const auto row_of = [&](int i) { return begin + i * split.step; };
  const auto make = [&](int i) {
    const std::int64_t row = row_of(i) + threadIdx.z;
    if (i >= split.count || row >= a.rows) return;
    float* const c = z[i & 1] + threadIdx.z * 2 * a.pairs;
    make_row(a, row, static_cast<std::uint32_t>(row) % static_cast<std::uint32_t>(a.tokens), slice,
             blockDim.x * blockDim.y, c, c + a.pairs);
  };
  const auto load = [&](int i) {
    if (i >= split.count || row_of(i) >= a.rows) return;
    stage.load(row_of(i), memory + (i % split.stages) * stage.size(), &full[i % split.stages]);
  };
  if (leads) {
    for (int i = 0; i < split.stages; ++i) barrier_init(&full[i]);
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    for (int i = 0; i + 1 < split.stages; ++i) load(i);
  }
  make(0);
  __syncthreads();
  for (int i = 0; i < split.count && row_of(i) < a.rows; ++i) {
    char* const here = memory + (i % split.stages) * stage.size();
    make(i + 1);
    barrier_wait(&full[i % split.stages], (i / split.stages) & 1);
    turn_stage<E, Turn>(a, split, here, z[i & 1]);
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
    __syncthreads();
    if (leads) {
      stage.store(row_of(i), here);
      asm volatile("cp.async.bulk.wait_group.read 1;" ::: "memory");
      load(i + split.stages - 1);
    }
  }
  if (leads) asm volatile("cp.async.bulk.wait_group.read 0;" ::: "memory");
}

}  // namespace rungs
