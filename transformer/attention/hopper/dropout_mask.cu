// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// Sampling of the dropout mask: a thread handles a sample of every head.

#include "transformer/attention/hopper/dropout_mask.h"

namespace rotary::transformer::hopper::attention {
namespace {

constexpr int kThreads = 256;
constexpr unsigned kMaxGridY = 65535;

__global__ void __launch_bounds__(kThreads)
    dropout_mask(DropoutMask mask, int heads, int query_blocks, int key_blocks,
                 const std::int64_t* seed, const __grid_constant__ KeepProbDigits digits) {
  const int index = static_cast<int>(blockIdx.x * kThreads + threadIdx.x);
  if (index >= query_blocks * key_blocks * kSamplesPerBlock) return;
  for (int head = static_cast<int>(blockIdx.y); head < heads; head += static_cast<int>(gridDim.y)) {
    sample_into(mask, static_cast<std::uint64_t>(*seed), head, index, query_blocks, key_blocks,
                digits);
  }
}

}  // namespace

int launch_dropout_mask(const Shape& shape, const DropoutMask& mask, const std::int64_t* seed,
                        int keep_steps, void* stream) {
  const int query_blocks = num_blocks(shape.queries);
  const int key_blocks = num_blocks(shape.keys);
  const int heads = shape.batch * shape.heads;
  const int samples = query_blocks * key_blocks * kSamplesPerBlock;
  const dim3 grid(static_cast<unsigned>((samples + kThreads - 1) / kThreads),
                  min(static_cast<unsigned>(heads), kMaxGridY));
  dropout_mask<<<grid, kThreads, 0, static_cast<cudaStream_t>(stream)>>>(
      mask, heads, query_blocks, key_blocks, seed, make_keep_prob_digits(keep_steps));
  return static_cast<int>(cudaGetLastError());
}

}  // namespace rotary::transformer::hopper::attention
