// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// Warp-specialised kernels: the first warpgroup of a CTA is the producer, which loads by TMA, the
// others are consumers, which compute. One skeleton and one launcher for all of them.
#pragma once

#include "transformer/kernels/hopper/warpgroup.cuh"

namespace rotary::transformer::hopper {

template <int kConsumers>
constexpr int kCtaThreads = (kConsumers + 1) * kWarpgroupThreads;
constexpr int kProducerRegisters = 24;
template <int kConsumers>
constexpr int kConsumerRegisters = kConsumers == 3 ? 160 : 240;

/// Dynamic shared memory, with its mbarriers initialised by SharedStorage::init().
template <typename SharedStorage>
__device__ SharedStorage& init_shared_storage() {
  extern __shared__ __align__(1024) unsigned char memory[];
  auto& shared = *reinterpret_cast<SharedStorage*>(memory);
  if (threadIdx.x == 0) {
    shared.init();
    fence_mbarrier_init();
  }
  __syncthreads();
  return shared;
}

/// Runs Producer{params, shared}.run() in all threads of the first warpgroup, and
/// Consumer{params, shared, warpgroup}.run() in the others.
template <int kConsumers, int kClusterSize, typename SharedStorage, typename Producer,
          typename Consumer, typename Params>
__device__ void run_warp_specialized(const Params& params) {
  auto& shared = init_shared_storage<SharedStorage>();
  if constexpr (kClusterSize > 1) cluster_sync();
  const int warpgroup = warpgroup_index();
  if (warpgroup == 0) {
    warpgroup_reg_dealloc<kProducerRegisters>();
    Producer{params, shared}.run();
  } else {
    warpgroup_reg_alloc<kConsumerRegisters<kConsumers>>();
    Consumer{params, shared, warpgroup - 1}.run();
  }
  if constexpr (kClusterSize > 1) cluster_sync();  // the other CTAs may still write here
}

/// Launches a persistent grid, at most a CTA per SM: see PersistentScheduler.
template <int kConsumers, int kClusterSize, typename SharedStorage, typename Params>
int launch_persistent(void (*kernel)(Params), const Params& params, int num_tiles, int num_sms,
                      void* stream) {
  const cudaError_t error = cudaFuncSetAttribute(
      kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(sizeof(SharedStorage)));
  if (error != cudaSuccess) return static_cast<int>(error);
  const int max_clusters = num_sms / kClusterSize;
  cudaLaunchAttribute cluster{.id = cudaLaunchAttributeClusterDimension};
  cluster.val.clusterDim = {kClusterSize, 1, 1};
  cudaLaunchConfig_t config{};
  config.gridDim = kClusterSize * (num_tiles < max_clusters ? num_tiles : max_clusters);
  config.blockDim = kCtaThreads<kConsumers>;
  config.dynamicSmemBytes = sizeof(SharedStorage);
  config.stream = static_cast<cudaStream_t>(stream);
  config.attrs = &cluster;
  config.numAttrs = kClusterSize > 1 ? 1 : 0;
  cudaLaunchKernelEx(&config, kernel, params);
  return static_cast<int>(cudaGetLastError());
}

}  // namespace rotary::transformer::hopper
