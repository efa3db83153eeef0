// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

/// The positions of the tokens of a call.
///
///   rope.rotate(q, rotary::Positions::range(4096));          // tokens at 4096, 4097, ...
///   rope.rotate(q, rotary::Positions::ids(position_ids));    // one id per token
///   rope.rotate(q, rotary::Positions::packed(cu_seqlens));   // packed sequences, each from 0
///
/// Positions may be negative and real-valued; rope.h states the accuracy. A Positions is a view:
/// its memory must outlive the call.
#pragma once

#include <cstdint>
#include <span>

#include "rotary/tensor.h"

namespace rotary {

class Positions {
 public:
  enum class Kind : std::uint8_t { kRange, kIds, kPacked };

  /// Token t of every batch row is at first + t. For any number of tokens.
  static Positions range(std::int64_t first = 0) noexcept {
    Positions positions;
    positions.start_ = first;
    return positions;
  }

  /// Token t of batch row b is at first[b] + t: decoding a batch of sequences of different lengths.
  static Positions range(std::span<const std::int64_t> first) noexcept;
  /// The same for a view [batch] of int32 or int64 on any device. Throws std::invalid_argument for
  /// another rank or type, or a negative size.
  static Positions range(const ConstTensorView& first);

  /// Every token at `position`, or every token of batch row b at position[b]: the distances of
  /// Rope::shift, or a decoding step of a batch.
  static Positions at(std::int64_t position) noexcept;
  static Positions at(std::span<const std::int64_t> position) noexcept;
  static Positions at(const ConstTensorView& position);

  /// One position per token, shared by all batch rows.
  static Positions ids(std::span<const std::int32_t> values) noexcept;
  static Positions ids(std::span<const std::int64_t> values) noexcept;
  static Positions ids(std::span<const float> values) noexcept;
  static Positions ids(std::span<const double> values) noexcept;

  /// A view of int32, int64, float32 or float64, any strides:
  ///   rank 1  [tokens]                  one axis
  ///   rank 2  [axes, tokens]            shared by all batch rows
  ///   rank 3  [axes, batch, tokens]     one axis with a batch is [1, batch, tokens]
  /// Throws std::invalid_argument for another rank or type, or a negative size.
  static Positions ids(const ConstTensorView& view);

  /// Sequences packed along the token dimension: sequence s has the tokens boundaries[s] ..
  /// boundaries[s+1]-1 (cu_seqlens), at positions first[s], first[s]+1, ... (`first` empty: from
  /// 0). Boundaries begin with 0, never decrease, and end with the number of tokens.
  static Positions packed(std::span<const std::int64_t> boundaries,
                          std::span<const std::int64_t> first = {});
  /// The same for contiguous views [sequences + 1] and [sequences], both int32 or both int64, on
  /// any device. Boundaries in device memory are not checked; tokens past the last boundary
  /// continue the last sequence.
  static Positions packed(const ConstTensorView& boundaries, const ConstTensorView& first = {});

  /// Packed sequences; all tokens of sequence s at position[s]: distances for Rope::shift.
  static Positions packed_at(std::span<const std::int64_t> boundaries,
                             std::span<const std::int64_t> position);
  static Positions packed_at(const ConstTensorView& boundaries, const ConstTensorView& position);

  /// The same position on every axis of the rope, as for text tokens in M-RoPE. For one-axis
  /// positions only; a rope of several axes rejects them otherwise.
  Positions on_all_axes() const;

  Kind kind() const noexcept { return kind_; }
  bool same_on_all_axes() const noexcept { return same_on_all_axes_; }
  /// Number of axes; 1 for ranges and packed sequences.
  std::int64_t axes() const noexcept { return kind_ == Kind::kIds ? view_.shape[0] : 1; }
  /// Number of batch rows; -1 for any.
  std::int64_t batch() const noexcept {
    if (kind_ == Kind::kIds) return view_.shape[1] == 1 ? -1 : view_.shape[1];
    return per_row_ ? first_.shape[0] : -1;
  }
  /// Number of tokens; -1 for any.
  std::int64_t tokens() const noexcept;
  /// True for float32 and float64 ids.
  bool real_valued() const noexcept;

  /// Kind kIds: [axes, batch or 1, tokens], with stride 0 where repeated.
  const ConstTensorView& view() const noexcept { return view_; }
  /// Kind kRange: the first position of each batch row; kPacked: of each sequence. int32 or int64,
  /// rank 1; data null where absent.
  const ConstTensorView& first() const noexcept { return first_; }
  std::int64_t start() const noexcept { return start_; }
  /// Kinds kRange and kPacked: the increment per token, 1 or (at, packed_at) 0.
  std::int64_t step() const noexcept { return step_; }
  /// Kind kPacked: int32 or int64, rank 1.
  const ConstTensorView& boundaries() const noexcept { return boundaries_; }

 private:
  Kind kind_ = Kind::kRange;
  bool same_on_all_axes_ = false;
  bool per_row_ = false;  // a range with a first position for each batch row
  std::int64_t start_ = 0;
  std::int64_t step_ = 1;
  ConstTensorView view_{};
  ConstTensorView first_{};
  ConstTensorView boundaries_{};
};

}  // namespace rotary
