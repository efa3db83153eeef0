// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// gelu(a b^T + bias), and its slope for the way back: that multiplies by it and needs no GELU,
// where a b^T kept instead would have it computed again from a rounded number.

#include <cstddef>

#include "feed_forward/products_cuda.h"
#include "feed_forward/tiles.cuh"
#include "layers/gelu.cuh"

namespace rotary::torch::products {
namespace {

struct Job {
  Matrices matrices;
  CUtensorMap h;  // [rows, columns]: [64, 64]
  CUtensorMap slope;
  const float* bias;
  int columns;
};

/// A part of both results.
struct Results {
  unsigned char h[kPartBytes];
  unsigned char slope[kPartBytes];
};

/// Two parts a warpgroup: one is copied out while the next is computed.
struct Shared {
  Ring ring;
  Results results[kComputers][2];
  RingBarriers barriers;

  __device__ void init() { barriers.init(); }
};

/// Biases of a thread's numbers in 16 columns: see Lane.
struct Biases {
  float at[4];

  __device__ explicit Biases(const float* from) {
    const int column = Lane().column();
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const float2 two = __ldg(reinterpret_cast<const float2*>(from + 8 * i + column));
      at[2 * i] = two.x;
      at[2 * i + 1] = two.y;
    }
  }
};

/// A warp's rows of a part.
__device__ void compute_rows(const float* y, const float* bias, Results& to) {
  const int warp = static_cast<int>(threadIdx.x) % kGroupThreads / 32;
  const Square square(to.h + warp * kWarpRows * kRowBytes);
#pragma unroll
  for (int n = 0; n < kPartColumns / 16; ++n) {
    const Biases b(bias + 16 * n);
    std::uint32_t values[4];
    std::uint32_t slopes[4];
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const float* two = y + 8 * n + 2 * i;
      const cuda::Gelu first = cuda::gelu_with_slope(two[0] + b.at[i / 2 * 2]);
      const cuda::Gelu second = cuda::gelu_with_slope(two[1] + b.at[i / 2 * 2 + 1]);
      values[i] = pack(first.value, second.value);
      slopes[i] = pack_half(first.slope, second.slope);
    }
    store_square(square.at(n), values);
    store_square(square.at(n) + offsetof(Results, slope), slopes);
  }
}

struct Computer {
  const Job& job;
  Shared& shared;
  int group;
  bool copies = threadIdx.x % kGroupThreads == 0;

  __device__ void finish(const Numbers& y, const Item& item) const {
#pragma unroll
    for (int part = 0; part < kParts; ++part) {
      const int half = part % 2;
      const int row = item.row + half * kPartRows;
      const int column = item.column + part / 2 * kPartColumns;
      if (column >= job.columns) break;
      Results& results = shared.results[group][half];
      if (copies) wait_stores_read<2>();  // the two of the part before may still be under way
      meet_group(1 + kComputers + group);
      compute_rows(y[half] + part / 2 * kPartNumbers, job.bias + column, results);
      publish_shared();
      meet_group(1 + kComputers + group);
      if (!copies) continue;
      store_box(job.h, results.h, column, row);
      store_box(job.slope, results.slope, column, row);
    }
  }

  __device__ void run() const {
    const Turn turn(group, 1);
    compute_tiles<false>(
        job.matrices, shared.ring, shared.barriers, turn,
        [this](const Numbers& y, const Item& item, int /*number*/) { finish(y, item); });
    if (has_last_turn(job.matrices, group)) turn.take();
    if (copies) wait_stores();
  }
};

struct Copier {
  const Job& job;
  Shared& shared;

  __device__ void run() const {
    if (threadIdx.x == 0) copy_operands<false>(job.matrices, shared.ring, shared.barriers);
  }
};

__global__ void __launch_bounds__(kThreads, 1) feed_forward(const __grid_constant__ Job job) {
  share_tiles<Shared, Copier, Computer>(job);
}

}  // namespace

int launch_forward(const Forward& of, void* stream) {
  Job job{.bias = of.bias, .columns = of.columns};
  if (!make_matrices<false>(job.matrices, of.a, of.b, of.rows, of.columns, of.depth) ||
      !make_map(job.h, of.h, of.rows, of.columns, kPartRows) ||
      !make_map(job.slope, of.slope, of.rows, of.columns, kPartRows)) {
    return static_cast<int>(cudaErrorInvalidValue);
  }
  return launch_tiles<Shared>(feed_forward, job, of.processors, stream);
}

}  // namespace rotary::torch::products
