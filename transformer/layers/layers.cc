// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// The operators: schemas, CPU implementations in PyTorch operators, and Meta functions.
// layers_cuda.cc has CUDA, autograd.cc the derivatives.

#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>
#include <torch/library.h>

#include <limits>
#include <tuple>

#include "transformer/kernels/philox.h"
#include "transformer/layers/checks.h"
#include "transformer/layers/dropout_mask.h"

namespace rotary::transformer {
namespace {

using OptionalTensor = std::optional<at::Tensor>;
using Two = std::tuple<at::Tensor, at::Tensor>;
using Three = std::tuple<at::Tensor, at::Tensor, at::Tensor>;
using Five = std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor, at::Tensor>;

// ---- CPU ----------------------------------------------------------------------------------------

/// Dropout mask: 0, or 1 / keep_prob; 1 without dropout.
at::Tensor dropout_mask(const at::Tensor& x, const OptionalTensor& seed, double dropout) {
  const at::TensorOptions options = x.options().dtype(at::kFloat);
  if (dropout == 0.0) return at::ones(x.sizes(), options);
  at::Tensor mask = at::empty(x.sizes(), options);
  fill_dropout_mask(mask.mutable_data_ptr<float>(), mask.numel(),
                    static_cast<std::uint64_t>(*seed->const_data_ptr<std::int64_t>()),
                    make_dropout(dropout));
  return mask;
}

/// residual + mask (x + bias), in float32.
at::Tensor add_residual(const at::Tensor& x, const OptionalTensor& residual,
                        const OptionalTensor& bias, const at::Tensor& mask) {
  const at::Tensor wide = x.to(at::kFloat);
  const at::Tensor masked = mask * (bias ? wide + *bias : wide);
  return residual ? residual->to(at::kFloat) + masked : masked;
}

at::Tensor sum_rows(const at::Tensor& x) { return x.flatten(0, -2).sum(0); }

Three add_norm_cpu(const at::Tensor& x, const OptionalTensor& residual, const OptionalTensor& bias,
                   const at::Tensor& weight, const at::Tensor& shift, const OptionalTensor& seed,
                   double dropout, double eps, bool drops_result) {
  check_add_norm(x, residual, bias, weight, seed, dropout);
  check_parameter("add_norm", "shift", shift, x);
  const at::Tensor v =
      add_residual(x, residual, bias, dropout_mask(x, seed, drops_result ? 0.0 : dropout));
  const at::Tensor mean = v.mean(-1, /*keepdim=*/true);
  const at::Tensor rstd = ((v - mean).square().mean(-1, /*keepdim=*/true) + eps).rsqrt();
  const at::Tensor y =
      ((v - mean) * rstd * weight + shift) * dropout_mask(x, seed, drops_result ? dropout : 0.0);
  return {y.to(x.scalar_type()), mean.squeeze(-1), rstd.squeeze(-1)};
}

/// Formulas: see backward_row() in add_norm_kernels.cu.
Five add_norm_backward_cpu(const at::Tensor& grad, const OptionalTensor& grad_residual,
                           const at::Tensor& x, const OptionalTensor& residual,
                           const OptionalTensor& bias, const at::Tensor& weight,
                           const at::Tensor& mean, const at::Tensor& rstd,
                           const OptionalTensor& seed, double dropout, bool drops_result) {
  check_add_norm_backward(grad, grad_residual, x, residual, bias, weight, mean, rstd, seed,
                          dropout);
  const at::Tensor mask = dropout_mask(x, seed, drops_result ? 0.0 : dropout);
  const at::Tensor n =
      (add_residual(x, residual, bias, mask) - mean.unsqueeze(-1)) * rstd.unsqueeze(-1);
  const at::Tensor wide = grad.to(at::kFloat);
  const at::Tensor all = (grad_residual ? wide + grad_residual->to(at::kFloat) : wide) *
                         dropout_mask(x, seed, drops_result ? dropout : 0.0);
  const at::Tensor g = all * weight;
  const at::Tensor dv = rstd.unsqueeze(-1) *
                        (g - g.mean(-1, /*keepdim=*/true) - n * (g * n).mean(-1, /*keepdim=*/true));
  const at::Tensor dx = dv * mask;
  const at::ScalarType type = x.scalar_type();
  return {dropout == 0.0 || drops_result ? at::empty({0}, x.options()) : dx.to(type),
          dv.to(type, false, true), sum_rows(dx), sum_rows(all * n), sum_rows(all)};
}

at::Tensor bias_gelu_cpu(const at::Tensor& x, const at::Tensor& bias) {
  check_bias_gelu(x, bias);
  return at::gelu(x.to(at::kFloat) + bias).to(x.scalar_type());
}

Two bias_gelu_backward_cpu(const at::Tensor& grad, const at::Tensor& x, const at::Tensor& bias) {
  check_bias_gelu_backward(grad, x, bias);
  const at::Tensor dx = at::gelu_backward(grad.to(at::kFloat), x.to(at::kFloat) + bias);
  return {dx.to(x.scalar_type(), false, /*copy=*/true), sum_rows(dx)};
}

at::Tensor row_sums_cpu(const at::Tensor& x) {
  check_layer("row_sums", x);
  return sum_rows(x.to(at::kFloat));
}

Two cross_entropy_cpu(const at::Tensor& logits, const at::Tensor& labels,
                      const OptionalTensor& bias) {
  check_cross_entropy(logits, labels, bias);
  const at::Tensor wide = logits.to(at::kFloat);
  const at::Tensor lse = at::logsumexp(wide, 1);
  const at::Tensor valid = at::logical_and(labels >= 0, labels < logits.size(1));
  const at::Tensor at_label = wide.gather(1, at::where(valid, labels, 0).unsqueeze(1)).squeeze(1);
  return {at::where(valid, lse - at_label, std::numeric_limits<float>::quiet_NaN()), lse};
}

Two cross_entropy_backward_cpu(const at::Tensor& grad, const at::Tensor& logits,
                               const at::Tensor& labels, const at::Tensor& lse) {
  check_cross_entropy_backward(grad, logits, labels, lse);
  at::Tensor d = (logits.to(at::kFloat) - lse.unsqueeze(1)).exp_();
  d.scatter_add_(1, labels.unsqueeze(1), at::full({labels.size(0), 1}, -1.0, d.options()));
  d.mul_(grad.unsqueeze(1));
  return {d.to(logits.scalar_type()), d.sum(0)};
}

// ---- Meta ---------------------------------------------------------------------------------------

Three add_norm_meta(const at::Tensor& x, const OptionalTensor& residual, const OptionalTensor& bias,
                    const at::Tensor& weight, const at::Tensor& shift, const OptionalTensor& seed,
                    double dropout, double /*eps*/, bool /*drops_result*/) {
  check_add_norm(x, residual, bias, weight, seed, dropout);
  check_parameter("add_norm", "shift", shift, x);
  const auto rows = x.sym_sizes().slice(0, static_cast<std::size_t>(x.dim()) - 1);
  return {at::empty_symint(x.sym_sizes(), x.options()), at::empty_symint(rows, weight.options()),
          at::empty_symint(rows, weight.options())};
}

Five add_norm_backward_meta(const at::Tensor& grad, const OptionalTensor& grad_residual,
                            const at::Tensor& x, const OptionalTensor& residual,
                            const OptionalTensor& bias, const at::Tensor& weight,
                            const at::Tensor& mean, const at::Tensor& rstd,
                            const OptionalTensor& seed, double dropout, bool drops_result) {
  check_add_norm_backward(grad, grad_residual, x, residual, bias, weight, mean, rstd, seed,
                          dropout);
  const auto like = [](const at::Tensor& t) {
    return at::empty_symint(t.sym_sizes(), t.options());
  };
  return {dropout == 0.0 || drops_result ? at::empty({0}, x.options()) : like(x), like(x),
          like(weight), like(weight), like(weight)};
}

at::Tensor bias_gelu_meta(const at::Tensor& x, const at::Tensor& bias) {
  check_bias_gelu(x, bias);
  return at::empty_symint(x.sym_sizes(), x.options());
}

Two bias_gelu_backward_meta(const at::Tensor& grad, const at::Tensor& x, const at::Tensor& bias) {
  check_bias_gelu_backward(grad, x, bias);
  return {at::empty_symint(x.sym_sizes(), x.options()),
          at::empty_symint(bias.sym_sizes(), bias.options())};
}

at::Tensor row_sums_meta(const at::Tensor& x) {
  check_layer("row_sums", x);
  return at::empty_symint({x.sym_size(-1)}, x.options().dtype(at::kFloat));
}

Two cross_entropy_meta(const at::Tensor& logits, const at::Tensor& labels,
                       const OptionalTensor& bias) {
  check_cross_entropy(logits, labels, bias);
  const auto rows = [&logits] {
    return at::empty_symint({logits.sym_size(0)}, logits.options().dtype(at::kFloat));
  };
  return {rows(), rows()};
}

Two cross_entropy_backward_meta(const at::Tensor& grad, const at::Tensor& logits,
                                const at::Tensor& labels, const at::Tensor& lse) {
  check_cross_entropy_backward(grad, logits, labels, lse);
  return {at::empty_symint(logits.sym_sizes(), logits.options()),
          at::empty_symint({logits.sym_size(1)}, logits.options().dtype(at::kFloat))};
}

}  // namespace
}  // namespace rotary::transformer

TORCH_LIBRARY_FRAGMENT(rotary, m) {
  const auto add = [&m](const char* schema) { m.def(schema, {at::Tag::pt2_compliant_tag}); };
  add("add_norm(Tensor x, Tensor? residual, Tensor? bias, Tensor weight, Tensor shift, "
      "Tensor? seed=None, float dropout=0.0, float eps=1e-05, bool drops_result=False) -> "
      "(Tensor, Tensor, Tensor)");
  add("add_norm_backward(Tensor grad, Tensor? grad_residual, Tensor x, Tensor? residual, Tensor? "
      "bias, "
      "Tensor weight, Tensor mean, Tensor rstd, Tensor? seed, float dropout, "
      "bool drops_result=False) -> "
      "(Tensor, Tensor, Tensor, Tensor, Tensor)");
  add("bias_gelu(Tensor x, Tensor bias) -> Tensor");
  add("bias_gelu_backward(Tensor grad, Tensor x, Tensor bias) -> (Tensor, Tensor)");
  add("row_sums(Tensor x) -> Tensor");
  add("cross_entropy(Tensor logits, Tensor labels, Tensor? bias=None) -> (Tensor, Tensor)");
  add("cross_entropy_backward(Tensor grad, Tensor logits, Tensor labels, Tensor lse) -> "
      "(Tensor, Tensor)");
}

TORCH_LIBRARY_IMPL(rotary, CPU, m) {
  m.impl("add_norm", rotary::transformer::add_norm_cpu);
  m.impl("add_norm_backward", rotary::transformer::add_norm_backward_cpu);
  m.impl("bias_gelu", rotary::transformer::bias_gelu_cpu);
  m.impl("bias_gelu_backward", rotary::transformer::bias_gelu_backward_cpu);
  m.impl("row_sums", rotary::transformer::row_sums_cpu);
  m.impl("cross_entropy", rotary::transformer::cross_entropy_cpu);
  m.impl("cross_entropy_backward", rotary::transformer::cross_entropy_backward_cpu);
}
TORCH_LIBRARY_IMPL(rotary, Meta, m) {
  m.impl("add_norm", rotary::transformer::add_norm_meta);
  m.impl("add_norm_backward", rotary::transformer::add_norm_backward_meta);
  m.impl("bias_gelu", rotary::transformer::bias_gelu_meta);
  m.impl("bias_gelu_backward", rotary::transformer::bias_gelu_backward_meta);
  m.impl("row_sums", rotary::transformer::row_sums_meta);
  m.impl("cross_entropy", rotary::transformer::cross_entropy_meta);
  m.impl("cross_entropy_backward", rotary::transformer::cross_entropy_backward_meta);
}
