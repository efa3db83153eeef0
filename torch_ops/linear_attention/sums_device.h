// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// The parts of the sums that go along the tokens, on CPU or CUDA. Tensors have no gaps and fit each
// other: sums.cc has checked them.
#pragma once

#include <ATen/core/Tensor.h>

#include <optional>

namespace rotary::torch {

/// states [rows, count, size], wide, in place: each becomes the sum of those before it, or in
/// reverse of those behind it.
void exclusive_scan_(const at::Tensor& states, bool reverse);

/// out [rows, tokens] of x and y [rows, tokens, features].
void dot_along(const at::Tensor& x, const at::Tensor& y, const at::Tensor& out, bool reverse);

/// out and x [rows, tokens, features], weight and scale [rows, tokens].
void sum_along(const at::Tensor& x, const std::optional<at::Tensor>& weight,
               const std::optional<at::Tensor>& scale, const at::Tensor& out, bool reverse);

/// Without gaps, from an address that is a multiple of 16: a copy where x is not so.
at::Tensor dense(const at::Tensor& x);

/// CUDA only, of dense tensors; see sums_cuda.h.
void elu_plus_one_into(const at::Tensor& x, const at::Tensor& out);
void unit_vectors_into(const at::Tensor& x, const at::Tensor& g, const at::Tensor& out);
void reciprocals_into(const at::Tensor& sums, const at::Tensor& bounds, double guard,
                      const at::Tensor& out);
void reciprocal_gradients_into(const at::Tensor& g, const at::Tensor& y, const at::Tensor& sums,
                               const at::Tensor& bounds, double guard, const at::Tensor& of_sums,
                               const at::Tensor& of_bounds);
void scaled_rows_and_dots_into(const at::Tensor& a, const at::Tensor& b, const at::Tensor& scale,
                               const at::Tensor& scaled, const at::Tensor& dots);

/// CUDA, 16-bit, of the sizes that cuda::has_product names.
bool has_product_kernel(const at::Tensor& x, const at::Tensor& w);
at::Tensor product_by_kernel(const at::Tensor& x, const at::Tensor& y, const at::Tensor& w,
                             const std::optional<at::Tensor>& scale, bool reverse);

}  // namespace rotary::torch
