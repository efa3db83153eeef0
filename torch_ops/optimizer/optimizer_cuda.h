// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// A training step on CUDA: pointers and sizes. Launchers neither allocate nor wait; they return
// what cudaGetLastError() says, as a number. Flat tensors begin at multiples of 16 bytes.
#pragma once

#include <cstdint>

namespace rotary::torch::cuda {

enum class PieceType : std::uint8_t { kFloat, kBFloat16, kFloat16 };

/// Pieces of one launch; they travel in the kernel's parameters.
constexpr int kMostPieces = 96;
struct Pieces {
  const void* from[kMostPieces];  // [count], from a multiple of 16 bytes on
  float* to[kMostPieces];         // [count], likewise
  std::int64_t count[kMostPieces];
  std::uint32_t first_block[kMostPieces];
  PieceType type[kMostPieces];
  int pieces = 0;
  bool adds = false;
};
constexpr std::int64_t kPieceBlock = 8192;  // elements a block has
int launch_gather(const Pieces& job, std::uint32_t blocks, void* stream);

/// Rows of a table to add to, in their order: those of one row lie together in `rows`.
struct AddRows {
  float* table = nullptr;               // [.., width], from multiples of 16 bytes on, as values
  const std::int32_t* rows = nullptr;   // [count], rising
  const std::int64_t* order = nullptr;  // [count]: which of the values each is for
  const void* values = nullptr;         // [count, width]
  float* open = nullptr;                // [row_chunks(count), 2, width], to work with
  std::int64_t count = 0;
  int width = 0;  // a multiple of 8
  std::int32_t skipped = -1;
};
constexpr std::int64_t kRowChunk = 32;
constexpr std::int64_t row_chunks(std::int64_t count) {
  return (count + kRowChunk - 1) / kRowChunk;
}
int launch_add_rows(const AddRows& job, PieceType type, void* stream);

/// chunks [num_chunks, 2]: first element and end of each; sums [num_chunks]: of squares.
constexpr std::int64_t kNormChunk = 32768;
int launch_square_sums(const float* flat, const std::int64_t* chunks, float* sums,
                       std::int64_t num_chunks, void* stream);
/// Part p has the chunks from first_chunks[p] to first_chunks[p + 1]; norms [num_parts].
int launch_norms(const float* sums, const std::int64_t* first_chunks, float* norms,
                 std::int64_t num_parts, void* stream);

/// As StepVerdict of torch_optimizer.h has them.
struct Verdict {
  const double* sums = nullptr;
  float* norms = nullptr;  // [parts]
  float* norm = nullptr;
  float* divisor = nullptr;
  float* bad = nullptr;
  double* bad_step = nullptr;
  float* bad_norms = nullptr;  // [parts]
  std::int64_t parts = 0;
  std::int64_t step = 0;
  float clip_norm = 0.0F;
};
int launch_judge(const Verdict& job, void* stream);

struct AdamWJob {
  float* values = nullptr;  // [size], as the next four
  float* first = nullptr;
  float* second = nullptr;
  const float* gradients = nullptr;
  void* narrow = nullptr;  // or null
  PieceType narrow_type = PieceType::kBFloat16;
  float* steps = nullptr;
  const float* divisor = nullptr;
  const float* skip = nullptr;
  float* factors = nullptr;  // [2], to work with: learning_rate / (1 - beta1^steps) and
                             // 1 / sqrt(1 - beta2^steps)
  std::int64_t size = 0;     // multiples of 4, both
  std::int64_t num_decaying = 0;
  double learning_rate = 0.0;
  double beta1 = 0.0;
  double beta2 = 0.0;
  float epsilon = 0.0F;
  float weight_decay = 0.0F;
};
int launch_adamw(const AdamWJob& job, void* stream);

}  // namespace rotary::torch::cuda
