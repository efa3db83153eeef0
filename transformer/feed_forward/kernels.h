// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// Launchers of GEMMs with fused GELU on GPUs of compute capability 9.0, in bfloat16 with float
// accumulators. They neither allocate nor synchronise; they return a cudaError_t as an int.
#pragma once

#include <cstdint>

namespace rotary::transformer::hopper::feed_forward {

/// Operands of the product [rows, columns] = a b, or a b^T. All matrices, those below too, are
/// contiguous and aligned to 16 bytes; depth and columns are multiples of 64.
struct GemmOperands {
  const void* a = nullptr;  // [rows, depth]
  const void* b = nullptr;  // forward: [columns, depth]; backward: [depth, columns]
  int rows = 0;
  int columns = 0;
  int depth = 0;
  int num_sms = 0;
};

struct ForwardParams {
  GemmOperands gemm{};
  const float* bias = nullptr;      // [columns]
  void* h = nullptr;                // [rows, columns]: gelu(a b^T + bias)
  void* gelu_derivative = nullptr;  // [rows, columns], float16: gelu'(a b^T + bias)
};
int launch_forward(const ForwardParams& params, void* stream);

struct BackwardParams {
  GemmOperands gemm{};
  const void* gelu_derivative = nullptr;  // [rows, columns], float16
  void* dz = nullptr;                     // [rows, columns]: (a b) * gelu_derivative
  float* partial = nullptr;  // [partial_rows(rows), columns]: partial sums of dz over rows
};
int launch_backward(const BackwardParams& params, void* stream);

/// One for each 128 rows, an even number.
constexpr std::int64_t partial_rows(std::int64_t rows) { return (rows + 255) / 256 * 2; }

}  // namespace rotary::transformer::hopper::feed_forward
