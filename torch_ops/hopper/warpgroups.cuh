// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// How warpgroups of a block of threads share work: the first copies tiles into shared memory, the
// others compute. No branch lies between a product's start and the wait for it: nvcc 13.0 then
// gives registers away too early.
#pragma once

#include "hopper/ptx.cuh"

namespace rotary::torch::hopper {

constexpr int kWarpsPerGroup = 4;

/// Which buffer of a ring of kStages, and the parity of how often it has been come round to.
template <int kStages>
struct Place {
  int stage = 0;
  int round = 0;

  __device__ void next() {
    if (++stage == kStages) {
      stage = 0;
      round ^= 1;
    }
  }
};

/// Where a thread of a warpgroup stands in a product's tile: it has rows row() and row() + 8, of
/// each eight columns column() and column() + 1, four numbers each time.
struct Lane {
  int thread = static_cast<int>(threadIdx.x) % kGroupThreads;

  __device__ int row() const { return thread / 32 * 16 + thread % 32 / 4; }
  __device__ int column() const { return thread % 4 * 2; }
};

/// Which warpgroup of the block, as a number that compilers know to be the same in all of a warp.
__device__ inline int warpgroup() {
  return __shfl_sync(~0U, static_cast<int>(threadIdx.x) / kGroupThreads, 0);
}

__device__ inline void release(std::uint64_t* barrier) {
  if (threadIdx.x % 32 == 0) arrive(barrier);
}

/// Warpgroups start products one after the other, so that one's run while others compute.
template <int kGroups>
struct Turns {
  int group;

  __device__ explicit Turns(int of) : group(of) {
    if (group == kGroups - 1) pass();
  }
  __device__ void take() const { meet(1 + group); }
  __device__ void pass() const { announce(1 + (group + 1) % kGroups); }
  /// After the last turn: the last to pass it meets the first.
  __device__ void end() const {
    if (group == 0) take();
  }
};

/// Shared memory, once its barriers are there.
template <typename Shared>
__device__ Shared& prepare() {
  extern __shared__ __align__(1024) unsigned char memory[];
  auto& shared = *reinterpret_cast<Shared*>(memory);
  if (threadIdx.x == 0) {
    shared.init();
    publish_barriers();
  }
  __syncthreads();
  return shared;
}

/// With one warpgroup that copies.
template <int kGroups>
constexpr int kThreads = (kGroups + 1) * kGroupThreads;
constexpr int kCopierRegisters = 24;
/// Of a warpgroup that computes, beside one that copies.
template <int kGroups>
constexpr int kComputerRegisters = kGroups == 3 ? 160 : 240;

/// The first warpgroup copies, the others compute.
template <int kGroups, typename Shared, typename Copier, typename Computer, typename Job>
__device__ void share_work(const Job& job) {
  auto& shared = prepare<Shared>();
  const int group = warpgroup();
  if (group == 0) {
    give_registers<kCopierRegisters>();
    if (threadIdx.x == 0) Copier{job, shared}.run();
  } else {
    take_registers<kComputerRegisters<kGroups>>();
    Computer{job, shared, group - 1}.run();
  }
}

}  // namespace rotary::torch::hopper
