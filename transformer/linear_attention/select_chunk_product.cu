// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// Selection of the chunk product kernel. There are three because each holds the state, features x
// values, in another place:
//
//   kSmall  64 x 64 blocks of the state in the registers of four warps, three CTAs per SM; more
//           values are more CTAs, each of which computes the scores again
//   kLarge  up to 64 x 256, 256 x 64 or 128 x 128 in the registers of eight warps, one CTA per SM;
//           scores are computed once
//   kWide   more features than registers hold (FAVOR+), 64 values: scanned states are read from
//           global memory, and segments are short

#include <cuda_runtime.h>

#include "transformer/linear_attention/kernels.h"

namespace rotary::transformer::cuda {
namespace {

int device_attribute(cudaDeviceAttr attribute) {
  int device = 0;
  int value = 0;
  cudaGetDevice(&device);
  cudaDeviceGetAttribute(&value, attribute, device);
  return value;
}

}  // namespace

ChunkProductKernel select_chunk_product(const StateDims& dims) {
  constexpr int kMaxLarge = 256;
  if (dims.features == kSmallTile && dims.values == kSmallTile) return ChunkProductKernel::kSmall;
  const int shared_bytes = device_attribute(cudaDevAttrMaxSharedMemoryPerBlockOptin);
  if (dims.features <= kMaxLarge && dims.values <= kMaxLarge &&
      large_shared_bytes(dims) <= shared_bytes) {
    return ChunkProductKernel::kLarge;
  }
  if (dims.features == kSmallTile) return ChunkProductKernel::kSmall;
  return dims.values == kSmallTile && wide_shared_bytes() <= shared_bytes
             ? ChunkProductKernel::kWide
             : ChunkProductKernel::kNone;
}

double concurrent_segments(ChunkProductKernel kernel, const StateDims& dims) {
  const int num_sms = device_attribute(cudaDevAttrMultiProcessorCount);
  if (kernel == ChunkProductKernel::kLarge) return num_sms;
  return static_cast<double>(num_sms * kSmallCtasPerSm) / small_state_blocks(dims);
}

int launch_chunk_product(ChunkProductKernel kernel, const ChunkProductParams& p, void* stream) {
  switch (kernel) {
    case ChunkProductKernel::kSmall:
      return launch_chunk_product_small(p, stream);
    case ChunkProductKernel::kLarge:
      return launch_chunk_product_large(p, stream);
    case ChunkProductKernel::kWide:
      return launch_chunk_product_wide(p, stream);
    case ChunkProductKernel::kNone:
      break;
  }
  return cudaErrorInvalidValue;
}

}  // namespace rotary::transformer::cuda
