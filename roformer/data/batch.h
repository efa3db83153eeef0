// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// What a trainer takes for a step: plain memory, to be wrapped as tensors.
#pragma once

#include <cstdint>
#include <vector>

#include "roformer/data/document_stream.h"

namespace rotary::roformer {

/// Labels of tokens that count for no loss.
inline constexpr std::int64_t kIgnore = -100;

/// Where a batch stream stands; save it with a checkpoint. The text forms are JSON of one line.
struct StreamState {
  StreamPosition position{};
  /// Tokens of that document that were given already.
  std::uint64_t offset = 0;
  /// Rows given, of all ranks.
  std::uint64_t row = 0;
  /// Of documents and order; a state is refused by another stream.
  std::uint64_t fingerprint = 0;

  friend bool operator==(const StreamState&, const StreamState&) = default;
};

/// Rows of one length. Everything that is [rows, length] is row-major.
struct Batch {
  std::int64_t rows = 0;
  std::int64_t length = 0;
  /// [rows, length]
  std::vector<std::int64_t> ids;
  /// [rows, length], 0 or 1.
  std::vector<std::int64_t> types;
  /// [rows, length]: what the model should say at this token, or kIgnore. For a causal model that
  /// is the token after it: labels need no shift. Empty where there are none.
  std::vector<std::int64_t> labels;
  /// [rows]: tokens that are not padding; padding stands at the end.
  std::vector<std::int64_t> lengths;
  /// Packed rows: where each sequence begins in the rows laid end to end, rows * length at last.
  /// Padding is a sequence of its own. Empty where a row is one sequence.
  std::vector<std::int32_t> cu_seqlens;
  /// [rows]: the class of each row; or [rows, 2]: the first and the last token of its answer. Empty
  /// where there are none.
  std::vector<std::int64_t> targets;
  /// Where the stream stands after this batch, however far it was read ahead.
  StreamState next{};
};

}  // namespace rotary::roformer
