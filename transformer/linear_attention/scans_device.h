// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// Scans along the tokens on CPU or CUDA, and row-wise kernels. Tensors are contiguous and of
// matching shapes: callers have checked them.
#pragma once

#include <ATen/core/Tensor.h>

#include <optional>

namespace rotary::transformer {

/// Exclusive scan in place of states [batch_heads, count, size], of an accumulator type: each
/// becomes the sum of those before it (after it in reverse).
void exclusive_scan_(const at::Tensor& states, bool reverse);

/// linear_dot: out [batch_heads, tokens], x and y [batch_heads, tokens, features].
void dot_scan(const at::Tensor& x, const at::Tensor& y, const at::Tensor& out, bool reverse);

/// linear_sum: out and x [batch_heads, tokens, features], weight and scale [batch_heads, tokens].
void sum_scan(const at::Tensor& x, const std::optional<at::Tensor>& weight,
              const std::optional<at::Tensor>& scale, const at::Tensor& out, bool reverse);

/// Contiguous and aligned to 16 bytes: x itself, or a copy.
at::Tensor dense(const at::Tensor& x);

/// CUDA only, of dense() tensors; see kernels.h.
void elu_plus_one_into(const at::Tensor& x, const at::Tensor& out);
void unit_vectors_into(const at::Tensor& x, const at::Tensor& g, const at::Tensor& out);
void reciprocals_into(const at::Tensor& sums, const at::Tensor& bounds, double guard,
                      const at::Tensor& out);
void reciprocal_gradients_into(const at::Tensor& g, const at::Tensor& y, const at::Tensor& sums,
                               const at::Tensor& bounds, double guard, const at::Tensor& d_sums,
                               const at::Tensor& d_bounds);
void scaled_rows_and_dots_into(const at::Tensor& a, const at::Tensor& b, const at::Tensor& scale,
                               const at::Tensor& scaled, const at::Tensor& dots);

/// linear_product on tensor cores: CUDA, types and sizes of cuda::supports_chunk_product().
bool has_chunk_product(const at::Tensor& x, const at::Tensor& w);
at::Tensor chunk_product(const at::Tensor& x, const at::Tensor& y, const at::Tensor& w,
                         const std::optional<at::Tensor>& scale, bool reverse);

}  // namespace rotary::transformer
