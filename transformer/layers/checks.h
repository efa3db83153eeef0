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
  TORCH_CHECK_VALUE(a.sym_sizes() == x.sym_sizes() && a.scalar_type() == x.scalar_type(), "[", name,
                    "] ", which, " must be as x, ", x.sym_sizes(), " of ", x.scalar_type(),
                    ", got ", a.sym_sizes(), " of ", a.scalar_type());
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

inline void check_cross_entropy(const at::Tensor& logits, const at::Tensor& labels,
                                const std::optional<at::Tensor>& bias) {
  check_layer("mean_cross_entropy", logits);
  TORCH_CHECK_VALUE(logits.dim() == 2 && labels.dim() == 1 &&
                        labels.sym_size(0) == logits.sym_size(0) &&
                        labels.scalar_type() == at::kLong,
                    "[mean_cross_entropy] labels must be [", logits.sym_size(0), "] of int64, got ",
                    labels.sym_sizes(), " of ", labels.scalar_type());
  if (bias) check_parameter("mean_cross_entropy", "bias", *bias, logits);
}

}  // namespace rotary::transformer
