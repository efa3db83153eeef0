// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

/// Rotation into a cache of keys and values, contiguous or paged, quantised or not, in one pass.
///
///   rope.append({.q = q, .k = k, .v = v,                         // [tokens, heads, 128]
///                .keys = {key_cache}, .values = {value_cache},   // [blocks, rows, heads, 128]
///                .slots = rotary::Slots::flat(slot_mapping)},
///               rotary::Positions::ids(position_ids));
///
/// The results have the bits of the unfused chain: rotate() (or norm_rotate()), rounded to the type
/// of the tensor, then quantised as StoredTensor says, then stored.
#pragma once

#include <cstdint>
#include <optional>

#include "rotary/cuda.h"
#include "rotary/norm.h"
#include "rotary/operands.h"
#include "rotary/tensor.h"
#include "rotary/threads.h"

namespace rotary {

/// What a scale does when an element is stored; a reader does the opposite.
enum class ScaleUse : std::uint8_t {
  kDivide,    // stored = x / scale
  kMultiply,  // stored = x * scale
};

/// Heads as they are stored: in the type of what is written, or quantised to float8 or int8.
///
/// A quantised element is x / scale or x * scale in float32, rounded to nearest (ties to even) and
/// saturated: beyond the largest finite number of the type (448, 57344; int8: -128 and 127), and
/// for infinities, that number is stored. NaN becomes the NaN 0x7f, in int8 0.
struct StoredTensor {
  /// Of a cache: [blocks, block_size, heads, head_dim], or [slots, heads, head_dim]. A contiguous
  /// cache [batch, max_tokens, heads, head_dim] is one with a block per sequence. Any strides, but
  /// the elements of a head are contiguous.
  TensorView data{};
  /// Given scales: float32, [1] or [heads]; empty for 1. Positive and finite.
  ConstTensorView scale{};
  /// Scales that the call computes and writes, instead of `scale`: float32 of the shape of `data`
  /// without head_dim, or with the number of groups in its place: one for each token, head and
  /// group of head_dim / groups elements. Of a group with maximum magnitude m (NaN aside; at most
  /// the largest float) it is max(m / M, 2^-126), where M is 448, 57344 or 127; with kMultiply
  /// min(M / m, 2^126).
  TensorView computed_scales{};
  ScaleUse use = ScaleUse::kDivide;
};

/// Where in a cache each token of a call is stored. Slot s is row s % block_size of block s /
/// block_size. A view: its memory must outlive the call.
class Slots {
 public:
  Slots() = default;

  /// One slot per token, int32 or int64: [batch, tokens], or [n] for the first n tokens of all
  /// batch rows in order. A token with slot -1, or past the end of [n], is not stored (its query is
  /// rotated). Of several tokens with the same slot the last is stored.
  static Slots flat(const ConstTensorView& slots) noexcept { return Slots(slots, {}, {}); }

  /// By a page table: block_table is [sequences, max_blocks], and the token at index p of sequence
  /// s is stored in block block_table[s][p / block_size]. `indices` are the p: [batch, tokens] or
  /// [n], -1 as above. `sequences`, of the shape of `indices`, are the s; empty: the batch row.
  static Slots paged(const ConstTensorView& block_table, const ConstTensorView& indices,
                     const ConstTensorView& sequences = {}) noexcept {
    return Slots(indices, block_table, sequences);
  }

  const ConstTensorView& indices() const noexcept { return indices_; }
  /// Empty (rank 0) for flat slots.
  const ConstTensorView& block_table() const noexcept { return block_table_; }
  const ConstTensorView& sequences() const noexcept { return sequences_; }

 private:
  Slots(const ConstTensorView& indices, const ConstTensorView& block_table,
        const ConstTensorView& sequences) noexcept
      : indices_(indices), block_table_(block_table), sequences_(sequences) {}

  ConstTensorView indices_{};
  ConstTensorView block_table_{};
  ConstTensorView sequences_{};
};

/// The tensors of Rope::append.
struct KvAppend {
  /// In place or to another tensor, as rotate() takes it; none: keys alone.
  std::optional<Operand> q{};
  ConstTensorView k{};
  /// Stored as it is; its head_dim is that of `values`. Empty: no values.
  ConstTensorView v{};
  StoredTensor keys{};
  StoredTensor values{};
  Slots slots{};
  /// Of q and k, with their rotation (HeadNorm::rotation), as in norm_rotate(). kNone: no norm, and
  /// only its `rotation` counts.
  HeadNorm norm{.kind = NormKind::kNone};
  ConstTensorView q_weight{};
  ConstTensorView k_weight{};
  ConstTensorView q_bias{};  // of NormKind::kLayer
  ConstTensorView k_bias{};
};

/// Rope::append without a rotation: stores k and v as they are. There are no q and no norm.
void store_kv(const KvAppend& tensors, const Threads& threads = {}, Stream stream = {});

}  // namespace rotary
