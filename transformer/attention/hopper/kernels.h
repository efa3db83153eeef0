// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// Launchers of softmax attention in bfloat16 with head_dim 64 on GPUs of compute capability 9.0,
// without a causal mask, with dropout. They neither allocate nor synchronise; they return a
// cudaError_t as an int.
#pragma once

#include <cstdint>

namespace rotary::transformer::hopper::attention {

constexpr int kHeadDim = 64;
/// Queries and keys are handled in blocks; the last may be partial.
constexpr int kBlockSize = 64;
constexpr int num_blocks(int tokens) { return (tokens + kBlockSize - 1) / kBlockSize; }

struct Shape {
  int batch = 0;
  int heads = 0;
  int queries = 0;
  int keys = 0;
};

/// [batch, heads, tokens, 64]. Strides count elements and are multiples of 8; data is aligned to 16
/// bytes.
struct HeadsTensor {
  void* data = nullptr;
  std::int64_t batch_stride = 0;
  std::int64_t head_stride = 0;
  std::int64_t token_stride = 0;
};

/// 32-bit words of the dropout mask of a block of queries and keys.
constexpr int kMaskWords = kBlockSize * kBlockSize / 32;

/// Dropout mask, a bit per attention weight: 1 where it is kept. The words of a block are in the
/// order of the accumulator's fragments, one for each thread of a warpgroup.
struct DropoutMask {
  std::uint32_t* by_queries = nullptr;  // [batch, heads, query_blocks, key_blocks, kMaskWords]
  /// [batch, heads, key_blocks, query_blocks, kMaskWords], or null.
  std::uint32_t* by_keys = nullptr;
};

/// keep_prob = keep_steps / kDropoutSteps.
int launch_dropout_mask(const Shape& shape, const DropoutMask& mask, const std::int64_t* seed,
                        int keep_steps, void* stream);

struct ForwardParams {
  Shape shape{};
  HeadsTensor q{};
  HeadsTensor k{};
  HeadsTensor v{};
  HeadsTensor y{};
  /// [batch, heads, 64 * query_blocks], query_blocks = num_blocks(queries): log2 of the sum over
  /// keys of exp(scale * q k); +infinity for queries past the end.
  float* lse = nullptr;
  DropoutMask mask{};  // nulls: no dropout
  float scale = 0.0F;
  float inv_keep_prob = 1.0F;
  int num_sms = 0;
};
int launch_forward(const ForwardParams& params, void* stream);

struct BackwardParams {
  ForwardParams forward{};
  HeadsTensor dy{};
  HeadsTensor dq{};
  HeadsTensor dk{};
  HeadsTensor dv{};
  float* delta = nullptr;  // workspace, shape of lse: keep_prob * sum(dY * Y) of each query
};
/// Queries first: launch_backward_keys() reads its delta.
int launch_backward_queries(const BackwardParams& params, void* stream);
int launch_backward_keys(const BackwardParams& params, void* stream);

}  // namespace rotary::transformer::hopper::attention
