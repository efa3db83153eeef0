// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

#include <cuda_runtime.h>

#include "cuda/planted_race.h"

namespace rotary {
namespace {

__global__ void race(int* out) {
  __shared__ int values[64];
  values[threadIdx.x] = static_cast<int>(threadIdx.x);
  out[threadIdx.x] = values[63 - threadIdx.x];  // no barrier
}

}  // namespace

void race_in_shared_memory(int* out) {
  race<<<1, 64>>>(out);
  cudaDeviceSynchronize();
}

}  // namespace rotary
