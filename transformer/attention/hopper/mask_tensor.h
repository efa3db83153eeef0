// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// Dropout masks as tensors: see hopper::attention::DropoutMask.
#pragma once

#include <ATen/Functions.h>
#include <ATen/core/Tensor.h>

#include "transformer/attention/hopper/kernels.h"

namespace rotary::transformer {

/// [batch, heads, blocks of rows, blocks of columns, kMaskWords], int32, uninitialised.
inline at::Tensor empty_mask(const c10::SymInt& batch, const c10::SymInt& heads,
                             const c10::SymInt& rows, const c10::SymInt& columns,
                             const at::TensorOptions& options) {
  namespace kernels = hopper::attention;
  const auto blocks = [](const c10::SymInt& tokens) {
    return (tokens + (kernels::kBlockSize - 1)) / kernels::kBlockSize;
  };
  return at::empty_symint({batch, heads, blocks(rows), blocks(columns), kernels::kMaskWords},
                          options.dtype(at::kInt));
}

/// [batch, heads, rows, columns], bool: true where a weight is kept.
at::Tensor unpack_mask(const at::Tensor& mask, std::int64_t rows, std::int64_t columns);

/// Whether masks are saved for backward, in both orders: where they take no more memory than q, k,
/// v and y in bfloat16, that is up to 2048 tokens with head_dim 64. For longer sequences backward
/// samples them again, so that memory stays linear in their length.
inline bool saves_masks(const at::Tensor& q, const at::Tensor& k) {
  if (q.dim() != 4 || k.dim() != 4) return false;  // rejected later
  constexpr int kBitsPerElement = 16;
  const c10::SymInt elements = (q.sym_size(2) + k.sym_size(2)) * 2 * q.sym_size(3);
  return q.sym_size(2) * k.sym_size(2) * 2 <= elements * kBitsPerElement;
}

}  // namespace rotary::transformer
