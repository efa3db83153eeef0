// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// FAVOR+ on CUDA: pointers and sizes of bfloat16 tensors without gaps. Launchers as in sums_cuda.h.
#pragma once

#include <cstdint>

namespace rotary::torch::cuda {

enum class FavorSide { kQuery, kKey };

constexpr std::int64_t kFavorHeadDim = 64;
constexpr int kFavorMostFeatures = 272;  // of shared memory
constexpr int kFavorTile = 64;           // tokens

struct FavorShape {
  std::int64_t rows = 0;  // batch times heads
  std::int64_t tokens = 0;
  std::int64_t heads = 0;
  int features = 0;   // m, a multiple of 16
  float root = 0.0F;  // 1 / sqrt(m)

  /// Tiles of a row.
#ifdef __CUDACC__
  __host__ __device__
#endif
      std::int64_t
      count() const {
    return (tokens + kFavorTile - 1) / kFavorTile;
  }
};

/// totals [rows, count, m], in the order of the weights: the sum of features over each tile; those
/// of queries times `factors` [rows, tokens], with their stabilisers `most`.
struct FavorTotals {
  const void* x = nullptr;        // [rows, tokens, 64]
  const void* weights = nullptr;  // [m, 64], in the order of favor.cc
  FavorSide side = FavorSide::kKey;
  const bool* padding = nullptr;  // [batch, tokens], or null
  const float* most = nullptr;
  const float* factors = nullptr;
  float* totals = nullptr;
};
int launch_favor_totals(const FavorTotals& p, const FavorShape& shape, void* stream);

struct FavorForward {
  const void* q = nullptr;
  const void* k = nullptr;
  const void* weights = nullptr;
  const bool* padding = nullptr;
  const void* table = nullptr;      // half2 (cos, sin) [tokens, m / 2] that turns c and e, or null
  const float* prefixes = nullptr;  // [rows, count, m]: sums of e before each tile
  void* c = nullptr;                // [rows, tokens, m]
  void* e = nullptr;
  float* dots = nullptr;  // [rows, tokens]
  float* most = nullptr;
};
int launch_favor_forward(const FavorForward& p, const FavorShape& shape, void* stream);

/// The gradient of the own tensor, q or k.
struct FavorBackward {
  const void* own = nullptr;
  const void* other = nullptr;
  const void* weights = nullptr;
  const bool* padding = nullptr;
  const float* most = nullptr;      // of queries
  const float* factors = nullptr;   // [rows, tokens]: the gradient of dots
  const float* prefixes = nullptr;  // queries: sums of e before each tile; keys: of h c behind it
  const void* table = nullptr;      // of the forward pass
  const void* g = nullptr;          // [rows, tokens, m]: the gradient of the own features, or null
  void* out = nullptr;
};
int launch_favor_backward(const FavorBackward& p, FavorSide side, const FavorShape& shape,
                          void* stream);

}  // namespace rotary::torch::cuda
