// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// Masks, drawn in the two orders in which kernels read them.

#include "attention/hopper/draw.h"

namespace rotary::torch::hopper {
namespace {

constexpr int kThreads = 256;
constexpr unsigned kMostHeads = 65535;  // of a grid

__device__ std::uint32_t choose(std::uint32_t bits, std::uint32_t a, std::uint32_t b) {
  return (a & bits) | (b & ~bits);
}

/// As drawn, but with queries and keys exchanged: word 2w + f has keys 16w + 8h + 2t + f and
/// queries 8j + 2s + e at bits 16h + 8e + 7 - j.
__device__ void transpose(Drawn& drawn) {
  std::uint32_t(&x)[kDrawWords] = drawn.word;
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const std::uint32_t a = x[i];
    const std::uint32_t b = x[i + 4];
    x[i] = choose(0xF0F0F0F0, a, b >> 4);
    x[i + 4] = choose(0xF0F0F0F0, a << 4, b);
  }
#pragma unroll
  for (int i = 0; i < kDrawWords; ++i) {
    if ((i & 2) != 0) continue;
    const std::uint32_t a = x[i];
    const std::uint32_t b = x[i + 2];
    x[i] = choose(0xCCCCCCCC, a, b >> 2);
    x[i + 2] = choose(0xCCCCCCCC, a << 2, b);
  }
#pragma unroll
  for (int i = 0; i < kDrawWords; i += 2) {
    const std::uint32_t a = x[i];
    const std::uint32_t b = x[i + 1];
    x[i] = choose(0xFF00FF00, b << 8, a);
    x[i + 1] = choose(0xFF00FF00, b, a >> 8);
  }
#pragma unroll
  for (int i = 0; i < kDrawWords; ++i) {
    const std::uint32_t swapped = (x[i] ^ x[i] >> 17) & 0x00005555;
    x[i] ^= swapped ^ swapped << 17;
  }
}

__device__ void store(const Drawn& drawn, std::uint32_t* block, int place) {
#pragma unroll
  for (int w = 0; w < kDrawWords / 2; ++w) {
    reinterpret_cast<uint2*>(block)[kDrawsPerBlock * w + place] =
        make_uint2(drawn.word[2 * w], drawn.word[2 * w + 1]);
  }
}

__global__ void __launch_bounds__(kThreads)
    draw_mask(Mask mask, int heads, int query_blocks, int key_blocks, const std::int64_t* seed,
              const __grid_constant__ Digits digits) {
  constexpr int kBlockWords = kDrawsPerBlock * kDrawWords;
  const int number = static_cast<int>(blockIdx.x * kThreads + threadIdx.x);
  const int blocks = query_blocks * key_blocks;
  if (number >= blocks * kDrawsPerBlock) return;
  const int block = number / kDrawsPerBlock;
  const int turned = block % key_blocks * query_blocks + block / key_blocks;
  const int s = number / 4 % 4;
  const int t = number % 4;
  for (int head = static_cast<int>(blockIdx.y); head < heads; head += static_cast<int>(gridDim.y)) {
    const std::int64_t first = std::int64_t{head} * blocks;
    Drawn drawn = draw_kept(static_cast<std::uint64_t>(*seed),
                            static_cast<std::uint64_t>(first * kDrawsPerBlock + number), digits);
    store(drawn, mask.by_queries + (first + block) * kBlockWords, 4 * s + t);
    if (mask.by_keys == nullptr) continue;
    transpose(drawn);
    store(drawn, mask.by_keys + (first + turned) * kBlockWords, 4 * t + s);
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
