// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// Launchers of the FAVOR+ kernels: contiguous bfloat16 tensors, heads of 64. They behave as those
// of kernels.h do.
#pragma once

#include <cstdint>

namespace rotary::transformer::cuda {

enum class FavorSide { kQuery, kKey };

constexpr std::int64_t kFavorHeadDim = 64;
constexpr int kFavorMaxFeatures = 272;  // limit of shared memory
constexpr int kFavorTile = 64;          // tokens

struct FavorShape {
  std::int64_t batch_heads = 0;
  std::int64_t tokens = 0;
  std::int64_t heads = 0;
  int features = 0;            // m, a multiple of 16
  float feature_scale = 0.0F;  // 1 / sqrt(m)

  /// Token tiles per row.
#ifdef __CUDACC__
  __host__ __device__
#endif
      std::int64_t
      tiles() const {
    return (tokens + kFavorTile - 1) / kFavorTile;
  }
};

/// Tile sums [batch_heads, tiles, m]: features summed over the tokens of each tile; those of
/// queries are multiplied by `scale` [batch_heads, tokens] and use the stabilisers `row_max`.
struct FavorTileSums {
  const void* x = nullptr;           // [batch_heads, tokens, 64]
  const void* projection = nullptr;  // [m, 64], permuted by favor.cc
  FavorSide side = FavorSide::kKey;
  const bool* padding = nullptr;  // [batch, tokens], or null
  const float* row_max = nullptr;
  const float* scale = nullptr;
  float* sums = nullptr;
};
int launch_favor_tile_sums(const FavorTileSums& p, const FavorShape& shape, void* stream);

struct FavorForward {
  const void* q = nullptr;
  const void* k = nullptr;
  const void* projection = nullptr;
  const bool* padding = nullptr;
  const void* cos_sin = nullptr;    // half2 [tokens, m / 2] that rotates features, or null
  const float* prefixes = nullptr;  // [batch_heads, tiles, m]: key features summed before each tile
  void* phi_q = nullptr;            // R phi(q) [batch_heads, tokens, m]
  void* phi_k = nullptr;            // R phi(k)
  float* dots = nullptr;            // [batch_heads, tokens]: phi(q_i) . sum_{j <= i} phi(k_j)
  float* row_max = nullptr;         // [batch_heads, tokens]: stabilisers of queries
};
int launch_favor_forward(const FavorForward& p, const FavorShape& shape, void* stream);

/// Backward of one side: the gradient of q or of k.
struct FavorBackward {
  const void* own = nullptr;  // of the side whose gradient is computed
  const void* other = nullptr;
  const void* projection = nullptr;
  const bool* padding = nullptr;
  const float* row_max = nullptr;  // of queries
  const float* d_dots = nullptr;   // [batch_heads, tokens]: gradient of dots
  /// [batch_heads, tiles, m]. Queries: phi(k) summed before each tile; keys: d_dots phi(q) summed
  /// after it.
  const float* prefixes = nullptr;
  const void* cos_sin = nullptr;  // of the forward pass
  const void* g = nullptr;        // [batch_heads, tokens, m]: gradient of the own features, or null
  void* out = nullptr;
};
int launch_favor_backward(const FavorBackward& p, FavorSide side, const FavorShape& shape,
                          void* stream);

}  // namespace rotary::transformer::cuda
