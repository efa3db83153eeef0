// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// torch.ops.rotary.feed_forward: the reference implementation on the CPU, meta functions, autograd.

#include "transformer/feed_forward/feed_forward.h"

#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/library.h>

#include <cmath>
#include <numbers>
#include <tuple>
#include <vector>

#include "pytorch/operator.h"
#include "rotary/transformer/layers.h"
#include "transformer/feed_forward/checks.h"

namespace rotary::transformer {
namespace {

using ::torch::autograd::AutogradContext;
using ::torch::autograd::variable_list;
using Two = std::tuple<at::Tensor, at::Tensor>;
using Three = std::tuple<at::Tensor, at::Tensor, at::Tensor>;

// ---- CPU ----------------------------------------------------------------------------------------

/// y, and what is saved for backward: h = gelu(z) and gelu'(z) of z = x inner^T + bias.
Three feed_forward_cpu(const at::Tensor& x, const at::Tensor& inner, const at::Tensor& bias,
                       const at::Tensor& outer) {
  check_feed_forward(x, inner, bias, outer);
  const at::Tensor z = at::linear(x.to(at::kFloat), inner.to(at::kFloat), bias);
  const at::Tensor cdf = at::special_ndtr(z);
  const at::Tensor density = at::exp(-0.5 * z * z) * (1.0 / std::sqrt(2.0 * std::numbers::pi));
  const at::Tensor h = (z * cdf).to(x.scalar_type());
  return {at::linear(h, outer), h, (cdf + z * density).to(derivative_type(x.scalar_type()))};
}

/// Gradients of z and of the bias.
Two feed_forward_backward_cpu(const at::Tensor& grad, const at::Tensor& outer,
                              const at::Tensor& derivative) {
  check_feed_forward_backward(grad, outer, derivative);
  const at::Tensor dz =
      at::matmul(grad.to(at::kFloat), outer.to(at::kFloat)) * derivative.to(at::kFloat);
  return {dz.to(grad.scalar_type()), dz.reshape({-1, outer.size(1)}).sum(0)};
}

// ---- Meta ---------------------------------------------------------------------------------------

/// [.., width], with the leading dimensions of x.
at::Tensor empty_rows(const at::Tensor& x, const c10::SymInt& width, at::ScalarType type) {
  std::vector<c10::SymInt> sizes = x.sym_sizes().vec();
  sizes.back() = width;
  return at::empty_symint(sizes, x.options().dtype(type));
}

Three feed_forward_meta(const at::Tensor& x, const at::Tensor& inner, const at::Tensor& bias,
                        const at::Tensor& outer) {
  check_feed_forward(x, inner, bias, outer);
  const at::ScalarType type = x.scalar_type();
  return {empty_rows(x, outer.sym_size(0), type), empty_rows(x, inner.sym_size(0), type),
          empty_rows(x, inner.sym_size(0), derivative_type(type))};
}

Two feed_forward_backward_meta(const at::Tensor& grad, const at::Tensor& outer,
                               const at::Tensor& derivative) {
  check_feed_forward_backward(grad, outer, derivative);
  return {empty_rows(grad, outer.sym_size(1), grad.scalar_type()),
          at::empty_symint({outer.sym_size(1)}, grad.options().dtype(at::kFloat))};
}

// ---- Autograd -----------------------------------------------------------------------------------

at::Tensor as_matrix(const at::Tensor& x) { return x.reshape_symint({-1, x.sym_size(-1)}); }

/// Returns y, h and the derivative of GELU.
struct FeedForward : ::torch::autograd::Function<FeedForward> {
  static variable_list forward(AutogradContext* context, const at::Tensor& x,
                               const at::Tensor& inner, const at::Tensor& bias,
                               const at::Tensor& outer) {
    const torch::BelowAutogradAndAutocast inside;
    static const auto handle =
        torch::find_operator<Three(const at::Tensor&, const at::Tensor&, const at::Tensor&,
                                   const at::Tensor&)>("rotary::feed_forward");
    auto [y, h, derivative] = handle.call(x, inner, bias, outer);
    context->save_for_backward({x, inner, outer, h, derivative});
    context->mark_non_differentiable({h, derivative});
    context->set_materialize_grads(false);
    return {y, h, derivative};
  }

  static variable_list backward(AutogradContext* context, variable_list grads) {
    variable_list results(4);
    if (!grads[0].defined()) return results;
    torch::refuse_second_derivative("feed_forward");
    const torch::BelowAutogradAndAutocast inside;
    const variable_list saved = context->get_saved_variables();
    const at::Tensor &x = saved[0], &inner = saved[1], &outer = saved[2];
    static const auto handle =
        torch::find_operator<Two(const at::Tensor&, const at::Tensor&, const at::Tensor&)>(
            "rotary::feed_forward_backward");
    if (context->needs_input_grad(3)) results[3] = as_matrix(grads[0]).t().mm(as_matrix(saved[3]));
    at::Tensor dz;
    std::tie(dz, results[2]) = handle.call(grads[0], outer, saved[4]);
    if (context->needs_input_grad(1)) results[1] = as_matrix(dz).t().mm(as_matrix(x));
    if (context->needs_input_grad(0)) results[0] = at::matmul(dz, inner);
    return results;
  }
};

Three feed_forward_autograd(const at::Tensor& x, const at::Tensor& inner, const at::Tensor& bias,
                            const at::Tensor& outer) {
  const variable_list results = FeedForward::apply(x, inner, bias, outer);
  return {results[0], results[1], results[2]};
}

}  // namespace

at::Tensor feed_forward(const at::Tensor& x, const at::Tensor& inner, const at::Tensor& bias,
                        const at::Tensor& outer) {
  if (use_fused_feed_forward(x, inner, outer)) return FeedForward::apply(x, inner, bias, outer)[0];
  return at::linear(bias_gelu(at::linear(x, inner), bias), outer);
}

}  // namespace rotary::transformer

TORCH_LIBRARY_FRAGMENT(rotary, m) {
  const auto add = [&m](const char* schema) { m.def(schema, {at::Tag::pt2_compliant_tag}); };
  add("feed_forward(Tensor x, Tensor inner, Tensor bias, Tensor outer) -> "
      "(Tensor, Tensor, Tensor)");
  add("feed_forward_backward(Tensor grad, Tensor outer, Tensor gelu_derivative) -> (Tensor, "
      "Tensor)");
}

TORCH_LIBRARY_IMPL(rotary, CPU, m) {
  m.impl("feed_forward", rotary::transformer::feed_forward_cpu);
  m.impl("feed_forward_backward", rotary::transformer::feed_forward_backward_cpu);
}
TORCH_LIBRARY_IMPL(rotary, Meta, m) {
  m.impl("feed_forward", rotary::transformer::feed_forward_meta);
  m.impl("feed_forward_backward", rotary::transformer::feed_forward_backward_meta);
}
TORCH_LIBRARY_IMPL(rotary, Autograd, m) {
  m.impl("feed_forward", rotary::transformer::feed_forward_autograd);
}
