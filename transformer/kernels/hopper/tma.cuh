// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// TMA (Tensor Memory Accelerator): asynchronous bulk copies between global and shared memory, each
// issued by one thread. Loads complete on an mbarrier; elements outside the tensor become 0.
#pragma once

#include <cuda.h>

#include "transformer/kernels/hopper/barrier.cuh"

namespace rotary::transformer::hopper {

// ---- Loads --------------------------------------------------------------------------------------

/// The box of a [batch, heads, tokens, head_dim] tensor that begins at token `row`.
__device__ inline void tma_load_4d(void* to, const CUtensorMap& map, std::uint64_t* barrier,
                                   int row, int head, int batch) {
  asm volatile(
      "cp.async.bulk.tensor.4d.shared::cluster.global.tile.mbarrier::complete_tx::bytes "
      "[%0], [%1, {%3, %4, %5, %6}], [%2];" ::"r"(shared_address(to)),
      "l"(&map), "r"(shared_address(barrier)), "r"(0), "r"(row), "r"(head), "r"(batch)
      : "memory");
}

__device__ inline void tma_load_2d(void* to, const CUtensorMap& map, std::uint64_t* barrier,
                                   int column, int row) {
  asm volatile(
      "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes "
      "[%0], [%1, {%3, %4}], [%2];" ::"r"(shared_address(to)),
      "l"(&map), "r"(shared_address(barrier)), "r"(column), "r"(row)
      : "memory");
}

/// Multicast: to the same address in every CTA of `cta_mask`, completing on each one's mbarrier.
__device__ inline void tma_load_2d_multicast(void* to, const CUtensorMap& map,
                                             std::uint64_t* barrier, int column, int row,
                                             std::uint16_t cta_mask) {
  asm volatile(
      "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes"
      ".multicast::cluster [%0], [%1, {%3, %4}], [%2], %5;" ::"r"(shared_address(to)),
      "l"(&map), "r"(shared_address(barrier)), "r"(column), "r"(row), "h"(cta_mask)
      : "memory");
}

/// Contiguous bytes, a multiple of 16.
__device__ inline void tma_load_bytes(void* to, const void* from, int bytes,
                                      std::uint64_t* barrier) {
  asm volatile(
      "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::
          "r"(shared_address(to)),
      "l"(from), "r"(bytes), "r"(shared_address(barrier))
      : "memory");
}

// ---- Stores -------------------------------------------------------------------------------------

/// A store is a bulk group of its own, waited for by the thread that issued it.
__device__ inline void tma_store_2d(const CUtensorMap& map, const void* from, int column, int row) {
  asm volatile(
      "cp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group [%0, {%2, %3}], [%1];\n"
      "cp.async.bulk.commit_group;" ::"l"(&map),
      "r"(shared_address(from)), "r"(column), "r"(row)
      : "memory");
}
/// Until all but the last kPending stores have read their shared memory.
template <int kPending>
__device__ inline void tma_store_wait_read() {
  asm volatile("cp.async.bulk.wait_group.read %0;" ::"n"(kPending) : "memory");
}
/// Until all stores are complete.
__device__ inline void tma_store_wait() {
  asm volatile("cp.async.bulk.wait_group 0;" ::: "memory");
}

}  // namespace rotary::transformer::hopper
