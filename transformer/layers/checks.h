// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// Argument checks of the operators; they throw c10::ValueError.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/util/Exception.h>

#include <optional>

namespace rotary::transformer {

inline void check_layer(const char* name, const at::Tensor& x) {
  TORCH_CHECK_VALUE(
      x.dim() >= 1 && (x.scalar_type() == at::kFloat || x.scalar_type() == at::kBFloat16 ||
                       x.scalar_type() == at::kHalf),
      "[", name, "] x must be [.., width] of float32, bfloat16 or float16, got ", x.dim(),
      " dimensions of ", x.scalar_type());
}

inline void check_parameter(const char* name, const char* which, const at::Tensor& p,
                            const at::Tensor& x) {
  TORCH_CHECK_VALUE(p.dim() == 1 && p.sym_size(0) == x.sym_size(-1) &&
                        p.scalar_type() == at::kFloat && p.device() == x.device(),
                    "[", name, "] ", which, " must be [", x.sym_size(-1), "] of float32 on ",
                    x.device(), ", got ", p.sym_sizes(), " of ", p.scalar_type(), " on ",
                    p.device());
}

inline void check_same(const char* name, const char* which, const at::Tensor& a,
                       const at::Tensor& x) {
  TORCH_CHECK_VALUE(a.sym_sizes() == x.sym_sizes() && a.scalar_type() == x.scalar_type() &&
                        a.device() == x.device(),
                    "[", name, "] ", which, " must be as x, ", x.sym_sizes(), " of ",
                    x.scalar_type(), " on ", x.device(), ", got ", a.sym_sizes(), " of ",
                    a.scalar_type(), " on ", a.device());
}

/// One float32 for each row of x.
inline void check_row_values(const char* name, const char* which, const at::Tensor& values,
                             const at::Tensor& x) {
  const auto rows = x.sym_sizes().slice(0, static_cast<std::size_t>(x.dim()) - 1);
  TORCH_CHECK_VALUE(values.sym_sizes() == rows && values.scalar_type() == at::kFloat &&
                        values.device() == x.device(),
                    "[", name, "] ", which, " must be ", rows, " of float32 on ", x.device(),
                    ", got ", values.sym_sizes(), " of ", values.scalar_type(), " on ",
                    values.device());
}

inline void check_add_norm(const at::Tensor& x, const std::optional<at::Tensor>& residual,
                           const std::optional<at::Tensor>& bias, const at::Tensor& weight,
                           const std::optional<at::Tensor>& seed, double dropout) {
  check_layer("add_norm", x);
  if (residual) check_same("add_norm", "residual", *residual, x);
  if (bias) check_parameter("add_norm", "bias", *bias, x);
  check_parameter("add_norm", "weight", weight, x);
  TORCH_CHECK_VALUE(dropout >= 0.0 && dropout < 1.0,
                    "[add_norm] dropout must be at least 0 and below 1, got ", dropout);
  TORCH_CHECK_VALUE(dropout == 0.0 || (seed && seed->scalar_type() == at::kLong &&
                                       seed->sym_numel() == 1 && seed->device() == x.device()),
                    "[add_norm] dropout needs a seed, one int64 on the device of x");
}

inline void check_add_norm_backward(const at::Tensor& grad,
                                    const std::optional<at::Tensor>& grad_residual,
                                    const at::Tensor& x, const std::optional<at::Tensor>& residual,
                                    const std::optional<at::Tensor>& bias, const at::Tensor& weight,
                                    const at::Tensor& mean, const at::Tensor& rstd,
                                    const std::optional<at::Tensor>& seed, double dropout) {
  check_add_norm(x, residual, bias, weight, seed, dropout);
  check_same("add_norm", "the gradient", grad, x);
  if (grad_residual) check_same("add_norm", "the gradient of the residual", *grad_residual, x);
  check_row_values("add_norm", "mean", mean, x);
  check_row_values("add_norm", "rstd", rstd, x);
}

inline void check_bias_gelu(const at::Tensor& x, const at::Tensor& bias) {
  check_layer("bias_gelu", x);
  check_parameter("bias_gelu", "bias", bias, x);
}

inline void check_bias_gelu_backward(const at::Tensor& grad, const at::Tensor& x,
                                     const at::Tensor& bias) {
  check_bias_gelu(x, bias);
  check_same("bias_gelu", "the gradient", grad, x);
}

inline void check_cross_entropy(const at::Tensor& logits, const at::Tensor& labels,
                                const std::optional<at::Tensor>& bias) {
  check_layer("mean_cross_entropy", logits);
  TORCH_CHECK_VALUE(logits.dim() == 2 && labels.dim() == 1 &&
                        labels.sym_size(0) == logits.sym_size(0) &&
                        labels.scalar_type() == at::kLong && labels.device() == logits.device(),
                    "[mean_cross_entropy] labels must be [", logits.sym_size(0), "] of int64 on ",
                    logits.device(), ", got ", labels.sym_sizes(), " of ", labels.scalar_type(),
                    " on ", labels.device());
  if (bias) check_parameter("mean_cross_entropy", "bias", *bias, logits);
}

inline void check_cross_entropy_backward(const at::Tensor& grad, const at::Tensor& logits,
                                         const at::Tensor& labels, const at::Tensor& lse) {
  check_cross_entropy(logits, labels, std::nullopt);
  check_row_values("mean_cross_entropy", "the gradient", grad, logits);
  check_row_values("mean_cross_entropy", "lse", lse, logits);
}

}  // namespace rotary::transformer
