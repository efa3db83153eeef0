// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

/// Rotation by the caller's cos/sin tables, as frameworks and ONNX's RotaryEmbedding pass them.
///
///   // cos and sin are [max_position, 64], one row per position
///   rotary::TableRope rope({cos, sin}, {.head_dim = 128, .pairing = rotary::Pairing::kHalf},
///                          rotary::TableWidth::kPairs);
///   rope.rotate({q, k}, rotary::Positions::ids(position_ids));
///   // or [tokens, 128], one row per token, each entry twice, as transformers passes them
///   rotary::TableRope(per_token, layout, rotary::TableWidth::kTwicePairs).rotate({q, k});
///
/// Uses the kernels of Rope. The accuracy of the angles is that of the tables.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "rotary/cuda.h"
#include "rotary/norm.h"
#include "rotary/operands.h"
#include "rotary/pairing.h"
#include "rotary/positions.h"
#include "rotary/tensor.h"
#include "rotary/threads.h"
#include "rotary/write_order.h"

namespace rotary {

/// Views of the caller's memory, which must outlive their use: [rows, width], or [batch, rows,
/// width] for a table per batch row; any strides; both of one type: float32, float64, float16 or
/// bfloat16. `width` is the number of pairs, or twice that: then each entry is repeated in the
/// layout of a head ([0 1 2 0 1 2] for kHalf, [0 0 1 1 2 2] for kInterleaved), and the first of the
/// two is read.
struct CosSinTable {
  ConstTensorView cos{};
  ConstTensorView sin{};
};

/// Entries per row: one or two per pair. Required, since the size of a row does not tell them
/// apart.
enum class TableWidth : std::uint8_t { kPairs, kTwicePairs };

/// Calls make the promises of Rope: checked before anything is written, no allocation up to a
/// rotary_dim of 512.
class TableRope {
 public:
  /// Throws std::invalid_argument for tables of different shapes, types or devices, an odd width
  /// with kTwicePairs, or a rotary slice that does not fit into the head.
  TableRope(const CosSinTable& table, const HeadLayout& layout, TableWidth width,
            Threads threads = {});

  /// Row t (of batch row b) for token t.
  void rotate(const Operands& tensors, Stream stream = {}) const;
  /// Row positions[t] for token t; throws if a position is not a row of the table. Integer
  /// positions on one axis. Positions in device memory cannot be checked: outside of the table the
  /// result is NaN.
  void rotate(const Operands& tensors, const Positions& positions, Stream stream = {}) const;

  /// Multiplies by 1/z = conj(z) / |z|^2.
  void unrotate(const Operands& tensors, Stream stream = {}) const;
  void unrotate(const Operands& tensors, const Positions& positions, Stream stream = {}) const;

  /// Multiplies by conj(z): maps the gradient of the output to that of the input.
  void adjoint(const Operands& tensors, Stream stream = {}) const;
  void adjoint(const Operands& tensors, const Positions& positions, Stream stream = {}) const;

  /// Rope::norm_rotate with row positions[t] for token t.
  void norm_rotate(std::span<const NormOperand> tensors, const HeadNorm& norm,
                   const Positions& positions, Stream stream = {}) const;
  /// With row t for token t.
  void norm_rotate(std::span<const NormOperand> tensors, const HeadNorm& norm,
                   Stream stream = {}) const;

  /// Rope::norm_gradient with row positions[t] for token t, and its workspace. The table has no
  /// gradient.
  void norm_gradient(std::span<const NormGradientOperand> tensors, const HeadNorm& norm,
                     const Positions& positions, std::span<std::byte> workspace = {},
                     Stream stream = {}) const;
  /// With row t for token t.
  void norm_gradient(std::span<const NormGradientOperand> tensors, const HeadNorm& norm,
                     std::span<std::byte> workspace = {}, Stream stream = {}) const;
  std::size_t norm_gradient_workspace(std::span<const NormGradientOperand> tensors,
                                      const HeadNorm& norm) const;

  const HeadLayout& layout() const noexcept { return layout_; }
  std::int64_t pairs() const noexcept { return pairs_; }

 private:
  CosSinTable table_;  // rank 3: [batch or 1, rows, width]
  HeadLayout layout_;
  TableWidth width_;
  std::int64_t pairs_ = 0;
  Threads threads_;
  WriteOrder order_;  // from the environment
};

}  // namespace rotary
