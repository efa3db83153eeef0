// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// Launchers of a training step: pointers and sizes. They neither allocate nor synchronise, and
// return cudaGetLastError() as an int. Flat buffers are aligned to 16 bytes.
#pragma once

#include <cstdint>

#include "transformer/kernels/element_type.h"

namespace rotary::transformer::cuda {

/// Segments of one launch, in the kernel's parameters.
constexpr int kMaxGatherSegments = 96;
struct GatherSegments {
  const void* from[kMaxGatherSegments];  // [count], aligned to 16 bytes
  float* to[kMaxGatherSegments];         // [count], likewise
  std::int64_t count[kMaxGatherSegments];
  std::uint32_t first_block[kMaxGatherSegments];
  ElementType type[kMaxGatherSegments];
  int segments = 0;
  bool accumulate = false;
};
constexpr std::int64_t kGatherBlock = 8192;  // elements per block
int launch_gather_segments(const GatherSegments& params, std::uint32_t blocks, void* stream);

/// table[rows[i]] += values[order[i]], with `rows` sorted, so that equal ones are adjacent.
struct AddRows {
  float* table = nullptr;               // [.., width], aligned to 16 bytes, as values
  const std::int32_t* rows = nullptr;   // [count], ascending
  const std::int64_t* order = nullptr;  // [count]: index into values
  const void* values = nullptr;         // [count, width]
  float* open = nullptr;  // [row_chunks(count), 2, width], workspace: sums of runs that
                          // cross chunks
  std::int64_t count = 0;
  int width = 0;  // a multiple of 8
  std::int32_t skipped = -1;
};
constexpr std::int64_t kRowChunk = 32;
constexpr std::int64_t row_chunks(std::int64_t count) {
  return (count + kRowChunk - 1) / kRowChunk;
}
int launch_add_rows(const AddRows& params, ElementType type, void* stream);

/// Sums of squares of chunks, sums [num_chunks]; chunks [num_chunks, 2]: first element and end.
constexpr std::int64_t kNormChunk = 32768;
int launch_square_sums(const float* flat, const std::int64_t* chunks, float* sums,
                       std::int64_t num_chunks, void* stream);
/// Norms of segments, [num_segments]: segment s has chunks first_chunks[s] to first_chunks[s + 1].
int launch_segment_norms(const float* sums, const std::int64_t* first_chunks, float* norms,
                         std::int64_t num_segments, void* stream);

/// The tensors of GradNormState, see rotary/transformer/optimizer.h.
struct GradNorm {
  const double* sums = nullptr;
  float* norms = nullptr;  // [segments]
  float* norm = nullptr;
  float* divisor = nullptr;
  float* nonfinite = nullptr;
  double* nonfinite_step = nullptr;
  float* nonfinite_norms = nullptr;        // [segments]
  const double* step_on_device = nullptr;  // or null: `step`
  std::int64_t segments = 0;
  std::int64_t step = 0;
  float clip_norm = 0.0F;
};
int launch_clip_and_check(const GradNorm& params, void* stream);

struct AdamW {
  float* values = nullptr;  // [size], as the next four
  float* first = nullptr;
  float* second = nullptr;
  const float* gradients = nullptr;
  void* narrow = nullptr;  // or null
  ElementType narrow_type = ElementType::kBFloat16;
  float* steps = nullptr;
  const float* divisor = nullptr;
  const float* skip = nullptr;
  const double* rate = nullptr;  // a factor of learning_rate; or null: 1
  float* corrections = nullptr;  // [2], workspace: learning_rate / (1 - beta1^steps) and
                                 // 1 / sqrt(1 - beta2^steps)
  std::int64_t size = 0;         // a multiple of 4, as num_decaying
  std::int64_t num_decaying = 0;
  double learning_rate = 0.0;
  double beta1 = 0.0;
  double beta2 = 0.0;
  float epsilon = 0.0F;
  float weight_decay = 0.0F;
};
int launch_adamw(const AdamW& params, void* stream);

}  // namespace rotary::transformer::cuda
