// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// The TMA pipeline: a ring of shared-memory stages that a producer fills and consumers read.
//
// Per stage, two mbarriers order all accesses:
//   full   read-after-write: consumers wait for it; it completes when TMA has written all bytes.
//   empty  write-after-read: the producer waits for it; it completes when every consumer warp has
//          released the stage. A warp releases after its last access: wgmma that read the stage are
//          waited for, and what its lanes loaded was read by, or has been used in, a
//          warp-synchronous instruction (ldmatrix, wgmma). So one lane arrives for all 32.
#pragma once

#include "transformer/kernels/hopper/barrier.cuh"

namespace rotary::transformer::hopper {

/// Pipeline state: current stage and its phase bit (flips on every wrap), as mbarrier waits expect
/// it.
template <int kStages>
struct PipelineState {
  int stage = 0;
  int phase = 0;

  __device__ void advance() {
    if (++stage == kStages) {
      stage = 0;
      phase ^= 1;
    }
  }
  /// The state after `count` calls of advance().
  __device__ static PipelineState after(int count) {
    return {.stage = count % kStages, .phase = count / kStages % 2};
  }
};

/// The mbarriers of a pipeline, or of kPipes pipelines side by side, one for each consumer
/// warpgroup.
template <int kStages, int kPipes = 1>
struct TmaPipeline {
  using State = PipelineState<kStages>;

  std::uint64_t full[kStages][kPipes];
  std::uint64_t empty[kStages][kPipes];

  /// Producer: waits until the stage is free.
  __device__ void producer_acquire(const State& state, int pipe = 0) {
    mbarrier_wait(&empty[state.stage][pipe], state.phase ^ 1);
  }
  /// Producer: announces `bytes`; returns the mbarrier on which the loads into the stage complete.
  __device__ std::uint64_t* producer_expect_tx(const State& state, int bytes, int pipe = 0) {
    mbarrier_arrive_expect_tx(&full[state.stage][pipe], bytes);
    return &full[state.stage][pipe];
  }

  __device__ void consumer_wait(const State& state, int pipe = 0) {
    mbarrier_wait(&full[state.stage][pipe], state.phase);
  }
  /// Whether consumer_wait() would return at once.
  __device__ bool consumer_test_wait(const State& state, int pipe = 0) {
    return mbarrier_test_wait(&full[state.stage][pipe], state.phase);
  }
  /// By all threads of a warp.
  __device__ void consumer_release(int stage, int pipe = 0) {
    if (threadIdx.x % 32 == 0) mbarrier_arrive(&empty[stage][pipe]);
  }
  /// The same in every CTA of the cluster, for stages that are written by multicast.
  template <int kClusterSize>
  __device__ void consumer_release_cluster(int stage) {
    const int lane = static_cast<int>(threadIdx.x) % 32;
    if (lane < kClusterSize) mbarrier_arrive_cluster(&empty[stage][0], lane);
  }
};

/// Initialises the mbarriers of pipelines of one shape, whose stages are free after
/// `consumer_arrivals`.
template <int kStages, int kPipes, typename... More>
__device__ void init_pipelines(int consumer_arrivals, TmaPipeline<kStages, kPipes>& first,
                               More&... more) {
  for (int i = 0; i < kStages * kPipes; ++i) {
    mbarrier_init(&first.full[0][0] + i, 1);
    (mbarrier_init(&more.full[0][0] + i, 1), ...);
    mbarrier_init(&first.empty[0][0] + i, consumer_arrivals);
    (mbarrier_init(&more.empty[0][0] + i, consumer_arrivals), ...);
  }
}

}  // namespace rotary::transformer::hopper
