// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// Masks as tensors of words: see hopper::Mask.
#pragma once

#include <ATen/Functions.h>
#include <ATen/core/Tensor.h>

#include "attention/hopper/hopper.h"

namespace rotary::torch {

constexpr std::int64_t kBlockWords = hopper::kBlock * hopper::kBlock / 32;

/// [batch, heads, blocks of rows, blocks of columns, 128], to be filled.
inline at::Tensor empty_mask(const c10::SymInt& batch, const c10::SymInt& heads,
                             const c10::SymInt& rows, const c10::SymInt& columns,
                             const at::TensorOptions& options) {
  const auto blocks = [](const c10::SymInt& tokens) {
    return (tokens + (hopper::kBlock - 1)) / hopper::kBlock;
  };
  return at::empty_symint({batch, heads, blocks(rows), blocks(columns), kBlockWords},
                          options.dtype(at::kInt));
}

/// [batch, heads, rows, columns]: the bits of a mask.
at::Tensor bits_of(const at::Tensor& mask, std::int64_t rows, std::int64_t columns);

/// Whether the masks of a call are kept for the way back, in both orders: where they are no larger
/// than q, k, v and the result are in bfloat16, that is up to 2048 tokens of 64 numbers. Longer
/// sequences draw them again, so that memory stays linear in their length.
inline bool keeps_masks(const at::Tensor& q, const at::Tensor& k) {
  if (q.dim() != 4 || k.dim() != 4) return false;  // refused soon
  constexpr int kBitsPerNumber = 16;
  const c10::SymInt numbers = (q.sym_size(2) + k.sym_size(2)) * 2 * q.sym_size(3);
  return q.sym_size(2) * k.sym_size(2) * 2 <= numbers * kBitsPerNumber;
}

}  // namespace rotary::torch
