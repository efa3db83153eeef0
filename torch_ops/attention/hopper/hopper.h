// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// Softmax attention in bfloat16 with 64 numbers a head on GPUs of compute capability 9.0: every
// query sees every key, and weights may be dropped. Launchers neither allocate nor wait; they
// return what CUDA says, as a number.
#pragma once

#include <cstdint>

namespace rotary::torch::hopper {

constexpr int kHeadDim = 64;
/// Queries and keys are counted in blocks; the last may be short.
constexpr int kBlock = 64;
constexpr int blocks_of(int tokens) { return (tokens + kBlock - 1) / kBlock; }

struct Shape {
  int batch = 0;
  int heads = 0;
  int queries = 0;
  int keys = 0;
};

/// [batch, heads, tokens, 64]. Strides count numbers and are multiples of 8; data begins at a
/// multiple of 16 bytes.
struct Heads {
  void* data = nullptr;
  std::int64_t batch = 0;
  std::int64_t head = 0;
  std::int64_t token = 0;
};

/// Which weights are kept: a bit each, 32 of them a word, 128 words a block of queries and keys,
/// in the order in which the threads of a warpgroup have the numbers of a product.
struct Mask {
  std::uint32_t* by_queries = nullptr;  // [batch, heads, query blocks, key blocks, 128]
  std::uint32_t* by_keys = nullptr;     // [batch, heads, key blocks, query blocks, 128], or null
};

/// Of 2^16 weights this many are kept, on average.
constexpr int kKeepSteps = 1 << 16;
int launch_draw_mask(const Shape& shape, const Mask& mask, const std::int64_t* seed, int keep,
                     void* stream);

struct Forward {
  Shape shape{};
  Heads q{};
  Heads k{};
  Heads v{};
  Heads y{};
  float* lse = nullptr;  // [batch, heads, 64 query blocks]: log2 of the sums of e^(scale q k)
  Mask mask{};           // or nulls: nothing is dropped
  float scale = 0.0F;
  float kept_scale = 1.0F;  // what kept weights are multiplied by
  int processors = 0;       // of the device
};
int launch_forward(const Forward& job, void* stream);

struct Backward {
  Forward forward{};
  Heads grad{};
  Heads dq{};
  Heads dk{};
  Heads dv{};
  float* delta = nullptr;  // [batch, heads, 64 query blocks], for its use
};
/// Queries first: the keys' reads its delta.
int launch_backward_queries(const Backward& job, void* stream);
int launch_backward_keys(const Backward& job, void* stream);

}  // namespace rotary::torch::hopper
