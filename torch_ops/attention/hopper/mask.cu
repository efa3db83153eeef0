// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// Masks: a thread makes a draw at a time.

#include "attention/hopper/draw.h"

namespace rotary::torch::hopper {
namespace {

constexpr int kThreads = 256;
constexpr unsigned kMostHeads = 65535;  // of a grid

__global__ void __launch_bounds__(kThreads)
    draw_mask(Mask mask, int heads, int query_blocks, int key_blocks, const std::int64_t* seed,
              const __grid_constant__ Digits digits) {
  const int number = static_cast<int>(blockIdx.x * kThreads + threadIdx.x);
  if (number >= query_blocks * key_blocks * kDrawsPerBlock) return;
  for (int head = static_cast<int>(blockIdx.y); head < heads; head += static_cast<int>(gridDim.y)) {
    draw_into(mask, static_cast<std::uint64_t>(*seed), head, number, query_blocks, key_blocks,
              digits);
  }
}

}  // namespace

int launch_draw_mask(const Shape& shape, const Mask& mask, const std::int64_t* seed, int keep,
                     void* stream) {
  const int query_blocks = blocks_of(shape.queries);
  const int key_blocks = blocks_of(shape.keys);
  const int heads = shape.batch * shape.heads;
  const int draws = query_blocks * key_blocks * kDrawsPerBlock;
  const dim3 grid(static_cast<unsigned>((draws + kThreads - 1) / kThreads),
                  min(static_cast<unsigned>(heads), kMostHeads));
  draw_mask<<<grid, kThreads, 0, static_cast<cudaStream_t>(stream)>>>(
      mask, heads, query_blocks, key_blocks, seed, digits_of(keep));
  return static_cast<int>(cudaGetLastError());
}

}  // namespace rotary::torch::hopper
