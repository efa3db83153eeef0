// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// Argument checks of the operators; they throw c10::ValueError.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/util/Exception.h>

#include "transformer/layers/checks.h"

namespace rotary::transformer {

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
      "[feed_forward] weights and bias must be on the device of x, ", x.device());
}

/// Of the saved derivative of GELU. For 16-bit types it is float16: values lie between -0.13 and
/// 1.13, where float16 is more precise than bfloat16.
inline at::ScalarType derivative_type(at::ScalarType type) {
  return type == at::kFloat ? at::kFloat : at::kHalf;
}

inline void check_feed_forward_backward(const at::Tensor& grad, const at::Tensor& outer,
                                        const at::Tensor& gelu_derivative) {
  TORCH_CHECK_VALUE(grad.dim() >= 1 && outer.dim() == 2 && grad.sym_size(-1) == outer.sym_size(0) &&
                        grad.scalar_type() == outer.scalar_type(),
                    "[feed_forward] the gradient must be [.., ", outer.sym_size(0), "] of ",
                    outer.scalar_type(), ", got ", grad.sym_sizes(), " of ", grad.scalar_type());
  TORCH_CHECK_VALUE(
      gelu_derivative.dim() == grad.dim() && gelu_derivative.sym_size(-1) == outer.sym_size(1) &&
          gelu_derivative.sym_numel() * outer.sym_size(0) == grad.sym_numel() * outer.sym_size(1) &&
          gelu_derivative.scalar_type() == derivative_type(grad.scalar_type()),
      "[feed_forward] gelu_derivative must be what feed_forward returned, got ",
      gelu_derivative.sym_sizes(), " of ", gelu_derivative.scalar_type());
  TORCH_CHECK_VALUE(
      outer.device() == grad.device() && gelu_derivative.device() == grad.device(),
      "[feed_forward] weights and gelu_derivative must be on the device of the gradient, ",
      grad.device());
}

}  // namespace rotary::transformer
