// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// Launchers of the layers: pointers and sizes. They neither allocate nor synchronise, and return
// cudaGetLastError() as an int, so that callers need no CUDA header. Tensors are contiguous and
// aligned to 16 bytes; widths are multiples of 8.
#pragma once

#include <cstdint>

#include "transformer/kernels/element_type.h"
#include "transformer/kernels/philox.h"

namespace rotary::transformer::cuda {

/// [rows, width] unless said otherwise.
struct AddNorm {
  const void* x = nullptr;
  const void* residual = nullptr;  // or null: 0
  const float* bias = nullptr;     // [width], or null
  const float* weight = nullptr;   // [width]
  const float* shift = nullptr;    // [width]
  const std::int64_t* seed = nullptr;
  void* y = nullptr;
  float* mean = nullptr;  // [rows]
  float* rstd = nullptr;  // [rows]: 1 / sqrt(variance + eps)
  std::int64_t rows = 0;
  int width = 0;
  float eps = 0.0F;
  Dropout dropout{};
  bool drops_result = false;  // dropout of y, not of x + bias
};
int launch_add_norm(const AddNorm& params, ElementType type, void* stream);

struct AddNormBackward {
  AddNorm forward{};  // y is not read
  const void* grad = nullptr;
  const void* grad_residual = nullptr;  // of the second result, added to grad; or null
  void* dx = nullptr;  // written where dropout is of x + bias; otherwise dx is dresidual
  void* dresidual = nullptr;
  float* partial = nullptr;  // [norm_blocks(rows), 3, width]: partial dweight, dshift, dbias
};
int launch_add_norm_backward(const AddNormBackward& params, ElementType type, void* stream);

int launch_bias_gelu(const void* x, const float* bias, void* y, std::int64_t rows, int width,
                     ElementType type, void* stream);
/// partial [row_tiles(rows, width), width]: partial sums of dbias.
int launch_bias_gelu_backward(const void* grad, const void* x, const float* bias, void* dx,
                              float* partial, std::int64_t rows, int width, ElementType type,
                              void* stream);

/// partial [row_tiles(rows, width), width]: partial sums over rows.
int launch_row_sums(const void* x, float* partial, std::int64_t rows, int width, ElementType type,
                    void* stream);

// Sums over rows are made in two steps: a block each sums some rows, then launch_column_sums() adds
// these partial sums. Their number is a constant of the code, not of the device, so that results
// are the same on every GPU: one wave of the 132 multiprocessors of an H100.
constexpr std::int64_t kNumSms = 132;
constexpr std::int64_t num_partials(std::int64_t rows, std::int64_t max) {
  return rows < 4 * max ? (rows + 3) / 4 : max;
}
constexpr std::int64_t norm_blocks(std::int64_t rows) { return num_partials(rows, 2 * kNumSms); }
constexpr std::int64_t kTileColumns = 1024;
constexpr std::int64_t kTileBlocks = 5;  // per multiprocessor
constexpr std::int64_t column_tiles(std::int64_t width) {
  return (width + kTileColumns - 1) / kTileColumns;
}
constexpr std::int64_t row_tiles(std::int64_t rows, std::int64_t width) {
  const std::int64_t max = kTileBlocks * kNumSms / column_tiles(width);
  return num_partials(rows, max > 1 ? max : 1);
}

/// Backward of split_heads_(): gradients of up to three projections, [rows, width] each, into one
/// [rows, projections width], the first `rotated` of them rotated back: with c and s of an
/// interleaved pair, (x, y) becomes (c x + s y, c y - s x).
constexpr int kMaxProjections = 3;
struct SplitHeadsBackward {
  const void* grads[kMaxProjections] = {};
  std::int64_t row_stride[kMaxProjections] = {};  // of grads, in elements; multiples of 8
  void* dproduct = nullptr;
  const float* cos_sin = nullptr;            // [table rows, head_dim]: c and s of each pair
  const std::int64_t* table_rows = nullptr;  // [rows], or null: row % tokens
  float* partial = nullptr;  // [split_heads_blocks(rows, width), projections width]: partial sums
                             // over rows
  int rows = 0;
  unsigned tokens = 0;
  int width = 0;
  int head_dim = 0;  // a multiple of 8
  int projections = 0;
  int rotated = 0;
};
/// Warps per block: as few as cover all columns, so that none is idle. Registers allow 24 warps per
/// multiprocessor.
constexpr int kSplitHeadsWarps = 24;
constexpr int split_heads_warps(std::int64_t width) {
  return static_cast<int>(width >= kTileColumns ? kTileColumns / 256 : (width + 255) / 256);
}
/// Blocks along rows.
constexpr std::int64_t split_heads_blocks(std::int64_t rows, std::int64_t width) {
  const std::int64_t max =
      kSplitHeadsWarps / split_heads_warps(width) * kNumSms / column_tiles(width);
  return num_partials(rows, max > 1 ? max : 1);
}
int launch_split_heads_backward(const SplitHeadsBackward& params, ElementType type, void* stream);

/// Results of launch_column_sums(): up to three of `width` columns each, side by side in `partial`.
struct ColumnSums {
  float* sums[3] = {};
  int width = 0;
};
/// Sums over the rows of partial [rows, columns].
int launch_column_sums(const float* partial, const ColumnSums& out, std::int64_t rows, int columns,
                       void* stream);

/// Copies rows of `bytes` bytes with strides in bytes: all multiples of 16.
int launch_copy_rows(const void* from, void* to, std::int64_t rows, std::int64_t bytes,
                     std::int64_t from_stride, std::int64_t to_stride, void* stream);

/// logits [rows, classes]; labels, losses and lse (log-sum-exp) [rows].
int launch_cross_entropy(const void* logits, const std::int64_t* labels, float* losses, float* lse,
                         std::int64_t rows, int classes, ElementType type, void* stream);
struct CrossEntropyBackward {
  const float* grad = nullptr;  // [rows], as the next three
  const float* lse = nullptr;
  const std::int64_t* labels = nullptr;
  const void* logits = nullptr;  // [rows, classes]
  void* dlogits = nullptr;       // [rows, classes]
  float* partial = nullptr;      // [row_tiles(rows, classes), classes]: its partial sums over rows
  std::int64_t rows = 0;
  int classes = 0;
};
int launch_cross_entropy_backward(const CrossEntropyBackward& params, ElementType type,
                                  void* stream);

}  // namespace rotary::transformer::cuda
