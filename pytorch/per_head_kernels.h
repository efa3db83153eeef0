// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// Launchers of the rotation by frequencies of each head: pointers and sizes. They neither allocate
// nor synchronise, and return cudaGetLastError() as an int, so that callers need no CUDA header.
#pragma once

#include <cstdint>

namespace rotary::torch::cuda {

enum class PerHeadType : std::uint8_t { kFloat, kDouble, kBFloat16, kFloat16 };

constexpr int kMaxPerHeadTensors = 4;

/// One tensor, [batch, tokens, heads, head_dim]; strides of the first three, in elements.
struct PerHeadTensor {
  const void* in = nullptr;    // x
  const void* grad = nullptr;  // backward: gradient of the rotated x
  void* out = nullptr;         // x rotated; backward: gradient of x
  std::int64_t in_strides[3] = {};
  std::int64_t grad_strides[3] = {};
  std::int64_t out_strides[3] = {};
  std::int32_t group = 1;  // heads in a row that share frequencies
};

struct PerHeadParams {
  PerHeadTensor tensors[kMaxPerHeadTensors] = {};
  std::int32_t num_tensors = 0;
  const double* positions = nullptr;    // [axes, batch, tokens]
  std::int64_t axis_stride = 0;         // 0: the same on all axes
  std::int64_t batch_stride = 0;        // 0: the same in all batch rows
  const double* frequencies = nullptr;  // [heads, pairs, axes]
  const double* scale = nullptr;        // [1], or null: rope_scale
  double rope_scale = 1.0;
  bool divides_by_scale = false;
  /// Sign of the phase of the factor that `in` is multiplied by.
  double sign = 1.0;
  std::int64_t batch = 0;
  std::int64_t tokens = 0;
  std::int32_t heads = 0;  // of the frequencies
  std::int32_t pairs = 0;
  std::int32_t axes = 0;
  std::int32_t head_dim = 0;
  std::int32_t rotary_offset = 0;
  bool reads_halves = false;   // pairing of `in` (and of the gradient of x)
  bool writes_halves = false;  // pairing of what was rotated
  bool vectorized = false;     // one pairing; all addresses are multiples of 16 bytes

  // ---- Backward: partial sums, one for each chunk of rows ---------------------------------------
  double* frequency_sums = nullptr;  // [chunks, heads, pairs, axes]
  double* length_sums = nullptr;     // [chunks, heads]
  std::int32_t chunks = 0;
};

int launch_rotate_per_head(const PerHeadParams& params, PerHeadType type, void* stream);
/// The gradients of tensors, and partial sums of those of frequencies and log(scale).
int launch_per_head_gradient(const PerHeadParams& params, PerHeadType type, void* stream);

/// cudaGetErrorString().
const char* per_head_error(int error);

/// Chunks of rows whose sums a block each computes: a constant of the code, not of the device, so
/// that results are the same on every GPU: some waves of the 132 multiprocessors of an H100.
constexpr std::int64_t per_head_chunks(std::int64_t rows, std::int64_t heads) {
  constexpr std::int64_t kBlocks = 132 * 8;
  constexpr std::int64_t kMinRows = 32;
  const std::int64_t wanted = (kBlocks + heads - 1) / heads;
  const std::int64_t useful = (rows + kMinRows - 1) / kMinRows;
  const std::int64_t chunks = wanted < useful ? wanted : useful;
  return chunks < 1 ? 1 : chunks;
}

}  // namespace rotary::torch::cuda
