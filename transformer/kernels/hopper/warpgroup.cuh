// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// A warpgroup: which one a thread belongs to, its registers, and their order at the tensor cores.
#pragma once

#include "transformer/kernels/hopper/barrier.cuh"

namespace rotary::transformer::hopper {

constexpr int kWarpgroupThreads = 128;
constexpr int kWarpsPerWarpgroup = 4;

/// Index of the warpgroup in the CTA, in a form that the compiler knows to be uniform in a warp.
__device__ inline int warpgroup_index() {
  return __shfl_sync(~0U, static_cast<int>(threadIdx.x) / kWarpgroupThreads, 0);
}

/// All threads of one warpgroup.
__device__ inline void warpgroup_sync(int named_barrier) {
  named_barrier_sync<kWarpgroupThreads>(named_barrier);
}

template <int kRegisters>
__device__ inline void warpgroup_reg_dealloc() {
  asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(kRegisters));
}
template <int kRegisters>
__device__ inline void warpgroup_reg_alloc() {
  asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(kRegisters));
}

/// Warpgroup scheduling (ping-pong for two): consumers issue their wgmma one after the other, so
/// that one's run on the tensor cores while the others compute. A warpgroup waits for its turn,
/// issues, and arrives for the next. Uses named barriers first_barrier to first_barrier +
/// kWarpgroups - 1.
template <int kWarpgroups>
struct WarpgroupOrder {
  int warpgroup;
  int first_barrier;

  __device__ explicit WarpgroupOrder(int warpgroup_, int first_barrier_ = 1)
      : warpgroup(warpgroup_), first_barrier(first_barrier_) {
    if (warpgroup == kWarpgroups - 1) arrive();  // warpgroup 0 begins
  }
  __device__ void wait() const {
    named_barrier_sync<2 * kWarpgroupThreads>(first_barrier + warpgroup);
  }
  __device__ void arrive() const {
    named_barrier_arrive<2 * kWarpgroupThreads>(first_barrier + (warpgroup + 1) % kWarpgroups);
  }
  /// At the end. Every arrive() needs a wait(): `idle` is the warpgroup whose turn would follow the
  /// last one.
  __device__ void drain(int idle) const {
    if (warpgroup == idle) wait();
  }
};

}  // namespace rotary::transformer::hopper
