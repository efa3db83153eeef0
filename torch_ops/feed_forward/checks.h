// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// What the operator asks of its arguments. c10::ValueError says what does not fit.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/util/Exception.h>

#include "layers/checks.h"

namespace rotary::torch {

inline void check_feed_forward(const at::Tensor& x, const at::Tensor& inner, const at::Tensor& bias,
                               const at::Tensor& outer) {
  check_layer("feed_forward", x);
  TORCH_CHECK_VALUE(inner.dim() == 2 && inner.sym_size(1) == x.sym_size(-1) && outer.dim() == 2 &&
                        outer.sym_size(1) == inner.sym_size(0),
                    "[feed_forward] weights must be [inner, width] and [.., inner] for x of width ",
                    x.sym_size(-1), ", got ", inner.sym_sizes(), " and ", outer.sym_sizes());
  TORCH_CHECK_VALUE(
      inner.scalar_type() == x.scalar_type() && outer.scalar_type() == x.scalar_type(),
      "[feed_forward] weights must be of x's type, ", x.scalar_type(), ", got ",
      inner.scalar_type(), " and ", outer.scalar_type());
  TORCH_CHECK_VALUE(
      bias.dim() == 1 && bias.sym_size(0) == inner.sym_size(0) && bias.scalar_type() == at::kFloat,
      "[feed_forward] bias must be [", inner.sym_size(0), "] of float32, got ", bias.sym_sizes(),
      " of ", bias.scalar_type());
  TORCH_CHECK_VALUE(
      inner.device() == x.device() && bias.device() == x.device() && outer.device() == x.device(),
      "[feed_forward] weights and bias must be where x is, on ", x.device());
}

/// Narrow types keep the slope in 16 bits. It lies between -0.13 and 1.13, where float16 has more
/// digits than bfloat16.
inline at::ScalarType slope_type(at::ScalarType type) {
  return type == at::kFloat ? at::kFloat : at::kHalf;
}

inline void check_feed_forward_backward(const at::Tensor& grad, const at::Tensor& outer,
                                        const at::Tensor& slope) {
  TORCH_CHECK_VALUE(grad.dim() >= 1 && outer.dim() == 2 && grad.sym_size(-1) == outer.sym_size(0) &&
                        grad.scalar_type() == outer.scalar_type(),
                    "[feed_forward] the gradient must be [.., ", outer.sym_size(0), "] of ",
                    outer.scalar_type(), ", got ", grad.sym_sizes(), " of ", grad.scalar_type());
  TORCH_CHECK_VALUE(
      slope.dim() == grad.dim() && slope.sym_size(-1) == outer.sym_size(1) &&
          slope.sym_numel() * outer.sym_size(0) == grad.sym_numel() * outer.sym_size(1) &&
          slope.scalar_type() == slope_type(grad.scalar_type()),
      "[feed_forward] the slope must be what feed_forward gave, got ", slope.sym_sizes(), " of ",
      slope.scalar_type());
  TORCH_CHECK_VALUE(outer.device() == grad.device() && slope.device() == grad.device(),
                    "[feed_forward] weights and slope must be where the gradient is, on ",
                    grad.device());
}

}  // namespace rotary::torch
