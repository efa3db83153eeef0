// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// (a b) slope, and its sums over rows.

#include <cuda_fp16.h>

#include "feed_forward/products_cuda.h"
#include "feed_forward/tiles.cuh"

namespace rotary::torch::products {
namespace {

struct Job {
  Matrices matrices;
  CUtensorMap slope;  // [rows, columns]: [64, 64]
  CUtensorMap dx;
  float* partial;
  int columns;
};

/// A thread's part of the sums over 64 columns: see Lane.
constexpr int kSums = kPartColumns / 8 * 2;
constexpr int kSlots = kParts;

/// Parts of the slope come into slots, become those of dx there, and go.
struct Shared {
  Ring ring;
  unsigned char slots[kSlots][kPartBytes];
  float sums[kComputers][kColumnParts][kWarpsPerGroup][kPartColumns];
  RingBarriers barriers;
  std::uint64_t full[kSlots];
  std::uint64_t empty[kSlots];

  __device__ void init() {
    barriers.init();
    for (int i = 0; i < kSlots; ++i) {
      init_barrier(&full[i], 1);
      init_barrier(&empty[i], 1);
    }
  }
};

/// Two threads copy, for all tiles of the block: operands, and the slope.
struct Copier {
  const Job& job;
  Shared& shared;

  __device__ void copy_slope() const {
    Place<kSlots> place;
    for (int index = first_item(); index < job.matrices.items; index += next_item()) {
      const Item item(job.matrices, index);
      for (int part = 0; part < kParts; ++part, place.next()) {
        std::uint64_t* full = &shared.full[place.stage];
        wait(&shared.empty[place.stage], place.round ^ 1);
        arrive_expecting(full, kPartBytes);
        copy_box(shared.slots[place.stage], job.slope, full, item.column + part / 2 * kPartColumns,
                 item.row + part % 2 * kPartRows);
      }
    }
  }

  __device__ void run() const {
    if (threadIdx.x == 0) copy_operands<true>(job.matrices, shared.ring, shared.barriers);
    if (threadIdx.x == 32) copy_slope();
  }
};

/// Turns a warp's rows of the slope into those of dx; adds these to the sums.
__device__ void multiply_rows(const float* y, unsigned char* slot, float (&sums)[kSums]) {
  const int warp = static_cast<int>(threadIdx.x) % kGroupThreads / 32;
  const Square square(slot + warp * kWarpRows * kRowBytes);
#pragma unroll
  for (int n = 0; n < kPartColumns / 16; ++n) {
    std::uint32_t pairs[4];
    load_square(pairs, square.at(n));
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const float2 slope = __half22float2(reinterpret_cast<const __half2&>(pairs[i]));
      const float first = y[8 * n + 2 * i] * slope.x;
      const float second = y[8 * n + 2 * i + 1] * slope.y;
      pairs[i] = pack(first, second);
      sums[4 * n + i / 2 * 2] += first;
      sums[4 * n + i / 2 * 2 + 1] += second;
    }
    store_square(square.at(n), pairs);
  }
}

// ---- Sums over rows -----------------------------------------------------------------------------

/// Two threads, whose lanes differ in `bit`, share kCount sums: each has half of them after it.
template <int kCount>
__device__ void share_sums(float (&sums)[kSums], int bit) {
  const bool upper = (threadIdx.x & bit) != 0;
#pragma unroll
  for (int i = 0; i < kCount / 2; ++i) {
    const float own = upper ? sums[i + kCount / 2] : sums[i];
    const float other = upper ? sums[i] : sums[i + kCount / 2];
    sums[i] = own + __shfl_xor_sync(~0U, other, bit);
  }
}

/// A warp's, from what its threads have.
__device__ void add_lanes(float (&sums)[kSums], float* to) {
  share_sums<16>(sums, 16);
  share_sums<8>(sums, 8);
  share_sums<4>(sums, 4);
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int eight = lane / 16 * 4 + lane / 8 % 2 * 2 + lane / 4 % 2;
  *reinterpret_cast<float2*>(to + 8 * eight + Lane().column()) = make_float2(sums[0], sums[1]);
}

// ---- A warpgroup --------------------------------------------------------------------------------

struct Computer {
  const Job& job;
  Shared& shared;
  int group;
  int thread = static_cast<int>(threadIdx.x) % kGroupThreads;

  /// Of 64 columns, the warps' sums in their order.
  __device__ void add_warps(const Item& item, int columns) const {
    const int column = item.column + columns * kPartColumns + thread;
    if (thread >= kPartColumns || column >= job.columns) return;
    const auto& parts = shared.sums[group][columns];
    float sum = parts[0][thread];
#pragma unroll
    for (int w = 1; w < kWarpsPerGroup; ++w) sum += parts[w][thread];
    job.partial[std::int64_t{item.row / kTileRows} * job.columns + column] = sum;
  }

  /// The part in `slot` goes; the slot of the part before is free once that is copied.
  __device__ void copy_out(int slot, const Item& item, int part) const {
    store_box(job.dx, shared.slots[slot], item.column + part / 2 * kPartColumns,
              item.row + part % 2 * kPartRows);
    if (part > 0) {
      wait_stores_read<1>();
      arrive(&shared.empty[(slot + kSlots - 1) % kSlots]);
    }
    if (part == kParts - 1) {
      wait_stores_read<0>();
      arrive(&shared.empty[slot]);
    }
  }

  __device__ void finish(const Numbers& y, const Item& item, int number, const Turn& turn) const {
    float sums[kSums];
    turn.take();
#pragma unroll
    for (int part = 0; part < kParts; ++part) {
      const int slot = (number * kParts + part) % kSlots;
      wait(&shared.full[slot], (number * kParts + part) / kSlots % 2);
      if (part == kParts - 1) turn.pass();
      if (part % 2 == 0) {
#pragma unroll
        for (float& sum : sums) sum = 0.0F;
      }
      multiply_rows(y[part % 2] + part / 2 * kPartNumbers, shared.slots[slot], sums);
      if (part % 2 == 1) add_lanes(sums, shared.sums[group][part / 2][thread / 32]);
      publish_shared();
      meet_group(1 + 2 * kComputers + group);
      if (thread == 0) copy_out(slot, item, part);
      if (part % 2 == 1) add_warps(item, part / 2);
    }
  }

  __device__ void run() const {
    const Turn turn(group, 1);
    const Turn turn_of_slots(group, 1 + kComputers);
    compute_tiles<true>(job.matrices, shared.ring, shared.barriers, turn,
                        [&](const Numbers& y, const Item& item, int number) {
                          finish(y, item, number, turn_of_slots);
                        });
    if (has_last_turn(job.matrices, group)) {
      turn.take();
      turn_of_slots.take();
    }
    if (thread == 0) wait_stores();
  }
};

__global__ void __launch_bounds__(kThreads, 1) feed_backward(const __grid_constant__ Job job) {
  share_tiles<Shared, Copier, Computer>(job);
}

}  // namespace

int launch_backward(const Backward& of, void* stream) {
  Job job{.partial = of.partial, .columns = of.columns};
  if (!make_matrices<true>(job.matrices, of.a, of.b, of.rows, of.columns, of.depth) ||
      !make_map(job.slope, of.slope, of.rows, of.columns, kPartRows) ||
      !make_map(job.dx, of.dx, of.rows, of.columns, kPartRows)) {
    return static_cast<int>(cudaErrorInvalidValue);
  }
  return launch_tiles<Shared>(feed_backward, job, of.processors, stream);
}

}  // namespace rotary::torch::products
