// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// Planted errors for compute-sanitizer: scripts/gpu_torch.sh --sanitize runs them first, through
// the same Python and with the same kernel filter as the tests, and wants each of them reported.

#include <cuda_runtime.h>

namespace rotary {
namespace {

/// memcheck: thread 64 writes one int past the end of 64.
__global__ void planted_out_of_bounds(int* out) { out[threadIdx.x] = 1; }

/// initcheck: reads memory that nothing has written.
__global__ void planted_uninitialised(const int* in, int* out) {
  out[threadIdx.x] = in[threadIdx.x];
}

/// racecheck: reads another thread's shared-memory element without a barrier.
__global__ void planted_race(int* out) {
  __shared__ int values[64];
  values[threadIdx.x] = static_cast<int>(threadIdx.x);
  out[threadIdx.x] = values[63 - threadIdx.x];
}

}  // namespace
}  // namespace rotary

extern "C" int plant(char tool) {
  int* in = nullptr;
  int* out = nullptr;
  cudaMalloc(&in, 64 * sizeof(int));
  cudaMalloc(&out, 64 * sizeof(int));
  if (tool == 'm') rotary::planted_out_of_bounds<<<1, 65>>>(out);
  if (tool == 'i') rotary::planted_uninitialised<<<1, 64>>>(in, out);
  if (tool == 'r') rotary::planted_race<<<1, 64>>>(out);
  return static_cast<int>(cudaDeviceSynchronize());
}
