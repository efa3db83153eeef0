// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// Products of matrices with bias and GELU on GPUs of compute capability 9.0, in bfloat16. Launchers
// neither allocate nor wait; they return what CUDA says, as a number.
#pragma once

#include <cstdint>

namespace rotary::torch::products {

/// Matrices have no gaps and begin at multiples of 16 bytes; depth and columns are multiples of 64.
struct Forward {
  const void* a = nullptr;      // [rows, depth]
  const void* b = nullptr;      // [columns, depth]
  const float* bias = nullptr;  // [columns]
  void* h = nullptr;            // [rows, columns]: gelu(a b^T + bias)
  void* slope = nullptr;        // [rows, columns], float16: gelu'(a b^T + bias)
  int rows = 0;
  int columns = 0;
  int depth = 0;
  int processors = 0;  // of the device
};
int launch_forward(const Forward& job, void* stream);

struct Backward {
  const void* a = nullptr;      // [rows, depth]
  const void* b = nullptr;      // [depth, columns]
  const void* slope = nullptr;  // [rows, columns], float16
  void* dx = nullptr;           // [rows, columns]: (a b) slope
  float* partial = nullptr;     // [partial_rows(rows), columns]: parts of the sums of dx over rows
  int rows = 0;
  int columns = 0;
  int depth = 0;
  int processors = 0;
};
int launch_backward(const Backward& job, void* stream);

/// Pairs of tiles of 128 rows.
constexpr std::int64_t partial_rows(std::int64_t rows) { return (rows + 255) / 256 * 2; }

}  // namespace rotary::torch::products
