// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// The operators: what they compute on the CPU, in PyTorch's terms, and what they say of shapes
// alone. device.cc has CUDA, autograd.cc the derivatives.

#include <ATen/Functions.h>
#include <ATen/Parallel.h>
#include <ATen/TensorOperators.h>
#include <torch/library.h>

#include <limits>
#include <tuple>

#include "layers/checks.h"
#include "layers/random.h"

namespace rotary::torch {
namespace {

using OptionalTensor = std::optional<at::Tensor>;
using Two = std::tuple<at::Tensor, at::Tensor>;
using Three = std::tuple<at::Tensor, at::Tensor, at::Tensor>;
using Five = std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor, at::Tensor>;

// ---- CPU ----------------------------------------------------------------------------------------

/// What dropout multiplies by.
at::Tensor kept(const at::Tensor& x, const OptionalTensor& seed, double dropout) {
  const at::Tensor factor = at::ones(x.sizes(), x.options().dtype(at::kFloat));
  if (dropout == 0.0) return factor;
  const Dropout rule = dropout_of(dropout);
  const auto key = static_cast<std::uint64_t>(*seed->const_data_ptr<std::int64_t>());
  auto* out = factor.mutable_data_ptr<float>();
  const std::int64_t count = x.numel();
  at::parallel_for(0, (count + kDrawn - 1) / kDrawn, 1024, [&](std::int64_t from, std::int64_t to) {
    for (std::int64_t n = from; n < to; ++n) {
      const Draw bits = draw(key, static_cast<std::uint64_t>(n));
      for (int i = 0; i < kDrawn && n * kDrawn + i < count; ++i) {
        out[n * kDrawn + i] = bits.at(i) >= rule.threshold ? rule.scale : 0.0F;
      }
    }
  });
  return factor;
}

at::Tensor sum_of(const at::Tensor& x, const OptionalTensor& before, const OptionalTensor& bias,
                  const at::Tensor& factor) {
  const at::Tensor wide = x.to(at::kFloat);
  const at::Tensor own = factor * (bias ? wide + *bias : wide);
  return before ? before->to(at::kFloat) + own : own;
}

at::Tensor over_rows(const at::Tensor& x) { return x.flatten(0, -2).sum(0); }

Three add_norm_cpu(const at::Tensor& x, const OptionalTensor& before, const OptionalTensor& bias,
                   const at::Tensor& weight, const at::Tensor& shift, const OptionalTensor& seed,
                   double dropout, double eps, bool drops_result) {
  check_add_norm(x, before, bias, weight, seed, dropout);
  check_parameter("add_norm", "shift", shift, x);
  const at::Tensor v = sum_of(x, before, bias, kept(x, seed, drops_result ? 0.0 : dropout));
  const at::Tensor mean = v.mean(-1, /*keepdim=*/true);
  const at::Tensor rstd = ((v - mean).square().mean(-1, /*keepdim=*/true) + eps).rsqrt();
  const at::Tensor y =
      ((v - mean) * rstd * weight + shift) * kept(x, seed, drops_result ? dropout : 0.0);
  return {y.to(x.scalar_type()), mean.squeeze(-1), rstd.squeeze(-1)};
}

/// The formulas: see go_back() in norm_kernels.cu.
Five add_norm_backward_cpu(const at::Tensor& grad, const OptionalTensor& grad_too,
                           const at::Tensor& x, const OptionalTensor& before,
                           const OptionalTensor& bias, const at::Tensor& weight,
                           const at::Tensor& mean, const at::Tensor& rstd,
                           const OptionalTensor& seed, double dropout, bool drops_result) {
  const at::Tensor factor = kept(x, seed, drops_result ? 0.0 : dropout);
  const at::Tensor n = (sum_of(x, before, bias, factor) - mean.unsqueeze(-1)) * rstd.unsqueeze(-1);
  const at::Tensor wide = grad.to(at::kFloat);
  const at::Tensor all = (grad_too ? wide + grad_too->to(at::kFloat) : wide) *
                         kept(x, seed, drops_result ? dropout : 0.0);
  const at::Tensor g = all * weight;
  const at::Tensor dv = rstd.unsqueeze(-1) *
                        (g - g.mean(-1, /*keepdim=*/true) - n * (g * n).mean(-1, /*keepdim=*/true));
  const at::Tensor dx = dv * factor;
  const at::ScalarType type = x.scalar_type();
  return {dropout == 0.0 || drops_result ? at::empty({0}, x.options()) : dx.to(type),
          dv.to(type, false, true), over_rows(dx), over_rows(all * n), over_rows(all)};
}

at::Tensor bias_gelu_cpu(const at::Tensor& x, const at::Tensor& bias) {
  check_layer("bias_gelu", x);
  check_parameter("bias_gelu", "bias", bias, x);
  return at::gelu(x.to(at::kFloat) + bias).to(x.scalar_type());
}

Two bias_gelu_backward_cpu(const at::Tensor& grad, const at::Tensor& x, const at::Tensor& bias) {
  const at::Tensor dx = at::gelu_backward(grad.to(at::kFloat), x.to(at::kFloat) + bias);
  return {dx.to(x.scalar_type(), false, /*copy=*/true), over_rows(dx)};
}

at::Tensor row_sums_cpu(const at::Tensor& x) {
  check_layer("row_sums", x);
  return over_rows(x.to(at::kFloat));
}

Two cross_entropy_cpu(const at::Tensor& logits, const at::Tensor& labels,
                      const OptionalTensor& bias) {
  check_cross_entropy(logits, labels, bias);
  const at::Tensor wide = logits.to(at::kFloat);
  const at::Tensor lse = at::logsumexp(wide, 1);
  const at::Tensor known = at::logical_and(labels >= 0, labels < logits.size(1));
  const at::Tensor own = wide.gather(1, at::where(known, labels, 0).unsqueeze(1)).squeeze(1);
  return {at::where(known, lse - own, std::numeric_limits<float>::quiet_NaN()), lse};
}

Two cross_entropy_backward_cpu(const at::Tensor& grad, const at::Tensor& logits,
                               const at::Tensor& labels, const at::Tensor& lse) {
  at::Tensor d = (logits.to(at::kFloat) - lse.unsqueeze(1)).exp_();
  d.scatter_add_(1, labels.unsqueeze(1), at::full({labels.size(0), 1}, -1.0, d.options()));
  d.mul_(grad.unsqueeze(1));
  return {d.to(logits.scalar_type()), d.sum(0)};
}

// ---- Shapes -------------------------------------------------------------------------------------

Three add_norm_meta(const at::Tensor& x, const OptionalTensor& before, const OptionalTensor& bias,
                    const at::Tensor& weight, const at::Tensor& shift, const OptionalTensor& seed,
                    double dropout, double /*eps*/, bool /*drops_result*/) {
  check_add_norm(x, before, bias, weight, seed, dropout);
  check_parameter("add_norm", "shift", shift, x);
  const auto rows = x.sym_sizes().slice(0, static_cast<std::size_t>(x.dim()) - 1);
  return {at::empty_symint(x.sym_sizes(), x.options()), at::empty_symint(rows, weight.options()),
          at::empty_symint(rows, weight.options())};
}

Five add_norm_backward_meta(const at::Tensor& /*grad*/, const OptionalTensor& /*grad_too*/,
                            const at::Tensor& x, const OptionalTensor& /*before*/,
                            const OptionalTensor& /*bias*/, const at::Tensor& weight,
                            const at::Tensor& /*mean*/, const at::Tensor& /*rstd*/,
                            const OptionalTensor& /*seed*/, double dropout, bool drops_result) {
  const auto like = [](const at::Tensor& t) {
    return at::empty_symint(t.sym_sizes(), t.options());
  };
  return {dropout == 0.0 || drops_result ? at::empty({0}, x.options()) : like(x), like(x),
          like(weight), like(weight), like(weight)};
}

at::Tensor bias_gelu_meta(const at::Tensor& x, const at::Tensor& bias) {
  check_layer("bias_gelu", x);
  check_parameter("bias_gelu", "bias", bias, x);
  return at::empty_symint(x.sym_sizes(), x.options());
}

Two bias_gelu_backward_meta(const at::Tensor& /*grad*/, const at::Tensor& x,
                            const at::Tensor& bias) {
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

Two cross_entropy_backward_meta(const at::Tensor& /*grad*/, const at::Tensor& logits,
                                const at::Tensor& /*labels*/, const at::Tensor& /*lse*/) {
  return {at::empty_symint(logits.sym_sizes(), logits.options()),
          at::empty_symint({logits.sym_size(1)}, logits.options().dtype(at::kFloat))};
}

}  // namespace
}  // namespace rotary::torch

TORCH_LIBRARY_FRAGMENT(rotary, m) {
  const auto add = [&m](const char* schema) { m.def(schema, {at::Tag::pt2_compliant_tag}); };
  add("add_norm(Tensor x, Tensor? before, Tensor? bias, Tensor weight, Tensor shift, "
      "Tensor? seed=None, float dropout=0.0, float eps=1e-05, bool drops_result=False) -> "
      "(Tensor, Tensor, Tensor)");
  add("add_norm_backward(Tensor grad, Tensor? grad_too, Tensor x, Tensor? before, Tensor? bias, "
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
  m.impl("add_norm", rotary::torch::add_norm_cpu);
  m.impl("add_norm_backward", rotary::torch::add_norm_backward_cpu);
  m.impl("bias_gelu", rotary::torch::bias_gelu_cpu);
  m.impl("bias_gelu_backward", rotary::torch::bias_gelu_backward_cpu);
  m.impl("row_sums", rotary::torch::row_sums_cpu);
  m.impl("cross_entropy", rotary::torch::cross_entropy_cpu);
  m.impl("cross_entropy_backward", rotary::torch::cross_entropy_backward_cpu);
}
TORCH_LIBRARY_IMPL(rotary, Meta, m) {
  m.impl("add_norm", rotary::torch::add_norm_meta);
  m.impl("add_norm_backward", rotary::torch::add_norm_backward_meta);
  m.impl("bias_gelu", rotary::torch::bias_gelu_meta);
  m.impl("bias_gelu_backward", rotary::torch::bias_gelu_backward_meta);
  m.impl("row_sums", rotary::torch::row_sums_meta);
  m.impl("cross_entropy", rotary::torch::cross_entropy_meta);
  m.impl("cross_entropy_backward", rotary::torch::cross_entropy_backward_meta);
}
