// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

/// Rotation by cos and sin that the caller already has, as frameworks and ONNX's RotaryEmbedding
/// hand them over.
///
///   // cos and sin are [max_position, 64], one row a position
///   rotary::TableRope rope({cos, sin}, {.head_dim = 128, .pairing = rotary::Pairing::kHalf},
///                          rotary::TableWidth::kPairs);
///   rope.rotate({q, k}, rotary::Positions::ids(position_ids));
///   // or [tokens, 128], one row a token, each entry twice, as transformers passes them
///   rotary::TableRope(per_token, layout, rotary::TableWidth::kTwicePairs).rotate({q, k});
///
/// The same kernels as Rope, with another source of the numbers. Exact angles are the caller's
/// business here; Rope makes them itself.
#pragma once

#include <cstdint>

#include "rotary/cuda.h"
#include "rotary/operands.h"
#include "rotary/pairing.h"
#include "rotary/positions.h"
#include "rotary/tensor.h"
#include "rotary/threads.h"

namespace rotary {

/// Views of the caller's memory, which must outlive their use: [rows, width], or
/// [batch, rows, width] for rows that differ between batch rows; any strides; both of one type:
/// float32, float64, float16 or bfloat16. `width` is the number of pairs, or twice that: then each
/// number stands twice, as the pairing lays out a head ([0 1 2 0 1 2] for kHalf, [0 0 1 1 2 2] for
/// kInterleaved), and the first of the two is read.
struct CosSinTable {
  ConstTensorView cos{};
  ConstTensorView sin{};
};

/// What a row holds. It has to be said: by its size alone a row of each number twice looks like one
/// of twice as many pairs.
enum class TableWidth : std::uint8_t { kPairs, kTwicePairs };

/// Calls as those of Rope, and as safe: checked before anything is written, no allocation up to a
/// rotary_dim of 512.
class TableRope {
 public:
  /// `width` kPairs: the table has one column a pair. Throws std::invalid_argument for tables whose
  /// shapes, types or devices differ, a width that is odd where it must not be, or a rotary slice
  /// that does not fit into the head.
  TableRope(const CosSinTable& table, const HeadLayout& layout, TableWidth width,
            Threads threads = {});

  /// Row t (of batch row b) for token t.
  void rotate(const Operands& tensors, Stream stream = {}) const;
  /// The row of each token's position; throws if a position is not a row of the table. Whole-number
  /// positions on one axis. Positions in device memory cannot be checked: where there is no row,
  /// the result is NaN.
  void rotate(const Operands& tensors, const Positions& positions, Stream stream = {}) const;

  /// By 1/z = conj(z) / |z|^2.
  void unrotate(const Operands& tensors, Stream stream = {}) const;
  void unrotate(const Operands& tensors, const Positions& positions, Stream stream = {}) const;

  /// By conj(z): gradient of the output to gradient of the input.
  void adjoint(const Operands& tensors, Stream stream = {}) const;
  void adjoint(const Operands& tensors, const Positions& positions, Stream stream = {}) const;

  const HeadLayout& layout() const noexcept { return layout_; }
  std::int64_t pairs() const noexcept { return pairs_; }

 private:
  CosSinTable table_;  // rank 3: [batch or 1, rows, width]
  HeadLayout layout_;
  TableWidth width_;
  std::int64_t pairs_ = 0;
  Threads threads_;
};

}  // namespace rotary
