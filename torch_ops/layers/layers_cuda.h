// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// The layers on CUDA: pointers and sizes. Launchers neither allocate nor wait; they return what
// cudaGetLastError() says, as a number, so that callers need no CUDA header. Tensors have no gaps
// and begin at multiples of 16 bytes; widths are multiples of 8.
#pragma once

#include <cstdint>

#include "layers/random.h"

namespace rotary::torch::cuda {

enum class LayerType { kFloat, kBFloat16, kFloat16 };

/// [rows, width] unless said otherwise.
struct AddNorm {
  const void* x = nullptr;
  const void* before = nullptr;   // or null: 0
  const float* bias = nullptr;    // [width], or null
  const float* weight = nullptr;  // [width]
  const float* shift = nullptr;   // [width]
  const std::int64_t* seed = nullptr;
  void* y = nullptr;
  float* mean = nullptr;  // [rows]
  float* rstd = nullptr;  // [rows]: 1 / sqrt(variance + eps)
  std::int64_t rows = 0;
  int width = 0;
  float eps = 0.0F;
  Dropout dropout{};
  bool drops_result = false;  // rather than x + bias
};
int launch_add_norm(const AddNorm& job, LayerType type, void* stream);

struct AddNormBackward {
  AddNorm forward{};  // its y is not looked at
  const void* grad = nullptr;
  const void* grad_too = nullptr;  // added to grad, or null
  void* dx = nullptr;              // where elements of x + bias are dropped; else it is dbefore
  void* dbefore = nullptr;
  float* partial = nullptr;  // [partial_rows(rows), 3, width]: parts of dweight, dshift, dbias
};
int launch_add_norm_backward(const AddNormBackward& job, LayerType type, void* stream);

int launch_bias_gelu(const void* x, const float* bias, void* y, std::int64_t rows, int width,
                     LayerType type, void* stream);
/// partial [tile_rows(rows, width), width]: parts of dbias.
int launch_bias_gelu_backward(const void* grad, const void* x, const float* bias, void* dx,
                              float* partial, std::int64_t rows, int width, LayerType type,
                              void* stream);

/// partial [tile_rows(rows, width), width]: parts of the sums over rows.
int launch_row_sums(const void* x, float* partial, std::int64_t rows, int width, LayerType type,
                    void* stream);

// How many parts sums over rows are made of: the same on every device, and so are the sums. They
// fill 132 multiprocessors once.
constexpr std::int64_t parts_of_rows(std::int64_t rows, std::int64_t most) {
  return rows < 4 * most ? (rows + 3) / 4 : most;
}
constexpr std::int64_t partial_rows(std::int64_t rows) { return parts_of_rows(rows, 2 * 132); }
constexpr std::int64_t kTileColumns = 1024;
constexpr std::int64_t kTileBlocks = 5;
constexpr std::int64_t tile_columns(std::int64_t width) {
  return (width + kTileColumns - 1) / kTileColumns;
}
constexpr std::int64_t tile_rows(std::int64_t rows, std::int64_t width) {
  const std::int64_t most = kTileBlocks * 132 / tile_columns(width);
  return parts_of_rows(rows, most > 1 ? most : 1);
}

/// Gradients of heads, [rows, width] each, into one of [rows, parts width], the first `turned` of
/// them turned back: with c and s of a pair, (x, y) becomes (c x + s y, c y - s x).
constexpr int kMostParts = 3;
struct JoinHeads {
  const void* from[kMostParts] = {};  // rows `step` elements apart, a multiple of 8
  std::int64_t step[kMostParts] = {};
  void* to = nullptr;
  const float* angles = nullptr;         // [places, head_dim]: c and s of neighbours
  const std::int64_t* places = nullptr;  // [rows], or null: row % tokens
  float* partial = nullptr;              // [join_rows(rows, width), parts width]: parts of the sums
                                         // over rows
  int rows = 0;
  unsigned tokens = 0;
  int width = 0;
  int head_dim = 0;  // a multiple of 8
  int parts = 0;
  int turned = 0;
};
/// A block has as few warps as have all columns, so that none is idle. 24 of them have room on a
/// multiprocessor.
constexpr int kJoinWarps = 24;
constexpr int join_warps(std::int64_t width) {
  return static_cast<int>(width >= kTileColumns ? kTileColumns / 256 : (width + 255) / 256);
}
constexpr std::int64_t join_rows(std::int64_t rows, std::int64_t width) {
  const std::int64_t most = kJoinWarps / join_warps(width) * 132 / tile_columns(width);
  return parts_of_rows(rows, most > 1 ? most : 1);
}
int launch_join_heads(const JoinHeads& job, LayerType type, void* stream);

/// Up to three results of `width` columns each, side by side.
struct SumsOut {
  float* sums[3] = {};
  int width = 0;
};
/// Of partial [rows, columns].
int launch_column_sums(const float* partial, const SumsOut& out, std::int64_t rows, int columns,
                       void* stream);

/// Rows of `bytes` bytes, `from_step` and `to_step` bytes apart: all multiples of 16.
int launch_copy_rows(const void* from, void* to, std::int64_t rows, std::int64_t bytes,
                     std::int64_t from_step, std::int64_t to_step, void* stream);

/// logits [rows, classes]; labels, losses and lse (log of the sum of exponentials) [rows].
int launch_cross_entropy(const void* logits, const std::int64_t* labels, float* losses, float* lse,
                         std::int64_t rows, int classes, LayerType type, void* stream);
struct CrossEntropyBackward {
  const float* grad = nullptr;  // [rows], as the next three
  const float* lse = nullptr;
  const std::int64_t* labels = nullptr;
  const void* logits = nullptr;  // [rows, classes]
  void* dlogits = nullptr;       // [rows, classes]
  float* partial = nullptr;      // [tile_rows(rows, classes), classes]: parts of its sums over rows
  std::int64_t rows = 0;
  int classes = 0;
};
int launch_cross_entropy_backward(const CrossEntropyBackward& job, LayerType type, void* stream);

}  // namespace rotary::torch::cuda
