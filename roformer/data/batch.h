// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// A batch of training data in plain memory, to be wrapped as tensors.
#pragma once

#include <cstdint>
#include <vector>

#include "roformer/data/document_stream.h"

namespace rotary::roformer {

/// The label of tokens without a loss: PyTorch's ignore_index.
inline constexpr std::int64_t kIgnoreIndex = -100;

/// The state of a batch stream, to be saved with a checkpoint. As text it is one line of JSON.
struct StreamState {
  StreamPosition position{};
  /// Tokens of that document that earlier rows contain.
  std::uint64_t offset = 0;
  /// Number of rows so far, of all ranks.
  std::uint64_t row = 0;
  /// Of documents and order; other streams reject the state.
  std::uint64_t fingerprint = 0;

  friend bool operator==(const StreamState&, const StreamState&) = default;
};

/// Rows of equal length. [rows, length] arrays are row-major.
struct Batch {
  std::int64_t rows = 0;
  std::int64_t length = 0;
  /// [rows, length]
  std::vector<std::int64_t> ids;
  /// [rows, length], 0 or 1.
  std::vector<std::int64_t> types;
  /// [rows, length]: the label of each token, or kIgnoreIndex. For a causal model it is the next
  /// token: labels are already shifted. Empty without an objective.
  std::vector<std::int64_t> labels;
  /// [rows]: number of tokens before the padding.
  std::vector<std::int64_t> lengths;
  /// Packed rows: cumulative sequence lengths over all rows; the last is rows * length. Padding is
  /// a sequence of its own. Empty if every row is one sequence.
  std::vector<std::int32_t> cu_seqlens;
  /// [rows]: the class of each row; or [rows, 2]: first and last token of its answer. May be empty.
  std::vector<std::int64_t> targets;
  /// [rows]: the number that is the label of each row (regression). Empty for other labels.
  std::vector<float> numbers;
  /// The state of the stream after this batch, independent of prefetching.
  StreamState next{};
};

}  // namespace rotary::roformer
