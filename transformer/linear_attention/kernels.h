// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// Launchers of linear attention's CUDA kernels: pointers and sizes of contiguous tensors. They
// neither allocate nor synchronise, and return cudaGetLastError() as an int, so that callers need
// no CUDA header. "accum" is the accumulator type: double for double, else float.
#pragma once

#include <cstdint>

#include "transformer/kernels/element_type.h"

namespace rotary::transformer::cuda {

/// Segments: every row of tokens is cut into segments, each scanned in order by one CTA or warp.
/// The sums of the segments before it are its initial state.
struct Segments {
  std::int64_t batch_heads = 0;  // rows
  std::int64_t tokens = 0;       // per row
  std::int64_t length = 0;       // tokens per segment
  bool reverse = false;
  bool unscanned = false;  // states hold the sum of their own segment, not that of those before it

  std::int64_t count() const { return (tokens + length - 1) / length; }
};

/// Exclusive scan over the segments of each row, in place: states [batch_heads, count, size], float
/// or double. Each becomes the sum of those before it (after it in reverse).
int launch_exclusive_scan(void* states, ElementType type, std::int64_t batch_heads,
                          std::int64_t count, std::int64_t size, bool reverse, void* stream);
/// The same scan of float states, rounded to 16-bit `sums`.
int launch_rounding_scan(const float* states, void* sums, ElementType type,
                         std::int64_t batch_heads, std::int64_t count, std::int64_t size,
                         bool reverse, void* stream);

/// Limit of launch_segment_sums(), launch_dot_scan() and launch_sum_scan().
constexpr std::int64_t kMaxFeatures = 1024;

/// Segment sums: sums [batch_heads, count, features], accum: weight_j x_j summed over each segment.
/// x is [batch_heads, tokens, features], weight [batch_heads, tokens] or null.
int launch_segment_sums(const void* x, const void* weight, void* sums, ElementType type,
                        const Segments& segments, std::int64_t features, void* stream);

/// out [batch_heads, tokens], accum: x_i . (prefix of its segment + sum of y_j in it).
int launch_dot_scan(const void* x, const void* y, const void* prefixes, void* out, ElementType type,
                    const Segments& segments, std::int64_t features, void* stream);

/// out [batch_heads, tokens, features]: scale_i (prefix of its segment + sum of weight_j x_j in
/// it).
int launch_sum_scan(const void* x, const void* weight, const void* scale, const void* prefixes,
                    void* out, ElementType type, const Segments& segments, std::int64_t features,
                    void* stream);

/// Feature map elu(x) + 1 of `count` elements: x + 1 above 0, else exp(x).
int launch_elu_plus_one(const void* x, void* out, ElementType type, std::int64_t count,
                        void* stream);

/// L2 normalisation of the rows of x [rows, width]; with g, the gradient of the result, that of x.
int launch_unit_vectors(const void* x, const void* g, void* out, ElementType type,
                        std::int64_t rows, std::int64_t width, void* stream);

/// Reciprocals of denominators, float or double: see rowwise.h. `bounds` may be null.
int launch_reciprocals(const void* sums, const void* bounds, double guard, void* out,
                       ElementType type, std::int64_t count, void* stream);
struct ReciprocalGradients {
  const void* g = nullptr;
  const void* y = nullptr;  // the reciprocals
  const void* sums = nullptr;
  const void* bounds = nullptr;
  double guard = 0.0;
  void* d_sums = nullptr;
  void* d_bounds = nullptr;
};
int launch_reciprocal_gradients(const ReciprocalGradients& p, ElementType type, std::int64_t count,
                                void* stream);

/// scaled_i = scale_i a_i and dots_i = a_i . b_i / scale_i (accum), of rows [rows, width].
int launch_scaled_rows_and_dots(const void* a, const void* b, const void* scale, void* scaled,
                                void* dots, ElementType type, std::int64_t rows, std::int64_t width,
                                void* stream);

// ---- Chunk product: causal linear attention on tensor cores -------------------------------------

/// Size of the state sum_j y_j w_j^T: features of x and y, values of w and out.
struct StateDims {
  int features = 0;
  int values = 0;
};

/// Types and sizes that chunk product kernels exist for: 16-bit; 128 features and 128 values, or 64
/// of one and a multiple of 16, at least 64, of the other.
constexpr bool supports_chunk_product(ElementType type, std::int64_t features,
                                      std::int64_t values) {
  const auto fits = [](std::int64_t narrow, std::int64_t other) {
    return narrow == 64 && other >= 64 && other % 16 == 0 && other <= kMaxFeatures;
  };
  return (type == ElementType::kBFloat16 || type == ElementType::kFloat16) &&
         ((features == 128 && values == 128) || fits(features, values) || fits(values, features));
}

/// States of segments: states [batch_heads, count, features, values], float: y_j w_j^T summed over
/// each segment. The length of segments is a multiple of 128.
int launch_segment_states(const void* y, const void* w, float* states, ElementType type,
                          const Segments& segments, const StateDims& dims, void* stream);

/// Kernels of the chunk product, by where their CTA holds the state: see select_chunk_product.cu.
enum class ChunkProductKernel { kNone, kSmall, kLarge, kWide };

/// The kernel for these sizes on the current GPU; kNone where its shared memory is too small.
ChunkProductKernel select_chunk_product(const StateDims& dims);

/// Shared memory of a CTA, in bytes.
int large_shared_bytes(const StateDims& dims);
int wide_shared_bytes();

constexpr int kSmallTile = 64;  // kSmall: features and values of a CTA's block of the state
constexpr int kSmallCtasPerSm = 3;

/// CTAs that share a segment in kSmall, one per block of the state.
constexpr int small_state_blocks(const StateDims& dims) {
  return ((dims.features + kSmallTile - 1) / kSmallTile) *
         ((dims.values + kSmallTile - 1) / kSmallTile);
}

/// Segments that the current GPU processes at a time with kSmall or kLarge.
double concurrent_segments(ChunkProductKernel kernel, const StateDims& dims);

/// out_i = scale_i x_i . (initial state of its segment + sum of y_j w_j^T in it).
struct ChunkProductParams {
  const void* x = nullptr;       // [batch_heads, tokens, features]
  const void* y = nullptr;       // the same
  const void* w = nullptr;       // [batch_heads, tokens, values]
  const float* scale = nullptr;  // [batch_heads, tokens], or null
  const void* states = nullptr;  // [batch_heads, count, features, values], or null: float
                                 // (kSmall, kLarge), of the type of x (kWide)
  void* out = nullptr;           // [batch_heads, tokens, values]
  ElementType type = ElementType::kBFloat16;
  Segments segments{};
  StateDims dims{};
};
int launch_chunk_product(ChunkProductKernel kernel, const ChunkProductParams& p, void* stream);

int launch_chunk_product_small(const ChunkProductParams& p, void* stream);
int launch_chunk_product_large(const ChunkProductParams& p, void* stream);
int launch_chunk_product_wide(const ChunkProductParams& p, void* stream);

}  // namespace rotary::transformer::cuda
