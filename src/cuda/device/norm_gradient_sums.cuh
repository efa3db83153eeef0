// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// Sums over blocks of the gradients of norms' weights and biases, in a fixed order.
#pragma once

#include <cstdint>

#include "cuda/device/grid_dependency.cuh"
#include "cuda/norm_gradient_params.h"

namespace rotary::internal::cuda {

/// Threads of sum_norm_gradients: [slices in turn][elements].
inline constexpr int kSumElements = 8;
inline constexpr int kSumParts = 64;

/// Grid: [tiles of kSumElements elements][parts]. Thread j of an element sums the slices j,
/// j + kSumParts, ..; then eight such sums at a time are added in order.
__global__ void __launch_bounds__(kSumElements* kSumParts)
    sum_norm_gradients(const __grid_constant__ NormSumParams p) {
  extern __shared__ __align__(16) double totals[];  // [kSumParts][kSumElements]
  if (p.overlaps) launch_dependent_grids();
  const NormSumParams::Part& part = p.parts[blockIdx.y];
  const auto i = static_cast<std::int32_t>(blockIdx.x * kSumElements + threadIdx.x);
  wait_on_dependent_grids();
  double sum = 0.0;
  if (i < part.count) {
#pragma unroll 8
    for (auto slice = static_cast<std::int32_t>(threadIdx.y); slice < p.slices;
         slice += kSumParts) {
      sum += p.partial[slice * p.partial_size + part.offset + i];
    }
  }
  totals[threadIdx.y * kSumElements + threadIdx.x] = sum;
  // Additions that wait for one another take tens of cycles each in float64.
  static_assert(kSumParts == 8 * 8);
  for (int step = 1; step < kSumParts; step *= 8) {
    __syncthreads();
    if (static_cast<int>(threadIdx.y) % (8 * step) != 0) continue;
    double total = 0.0;
#pragma unroll
    for (int j = 0; j < 8; ++j) {
      total += totals[(static_cast<int>(threadIdx.y) + j * step) * kSumElements + threadIdx.x];
    }
    totals[threadIdx.y * kSumElements + threadIdx.x] = total;
  }
  if (threadIdx.y == 0 && i < part.count) part.to[i] = totals[threadIdx.x];
}

}  // namespace rotary::internal::cuda
