// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// The operator: on the CPU the formulas, which say what the kernels compute, and derivatives.

#include "feed_forward/feed_forward.h"

#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/library.h>

#include <cmath>
#include <numbers>
#include <tuple>
#include <vector>

#include "feed_forward/checks.h"
#include "operator.h"
#include "rotary/torch_layers.h"

namespace rotary::torch {
namespace {

using ::torch::autograd::AutogradContext;
using ::torch::autograd::variable_list;
using Two = std::tuple<at::Tensor, at::Tensor>;
using Three = std::tuple<at::Tensor, at::Tensor, at::Tensor>;

// ---- CPU ----------------------------------------------------------------------------------------

/// y, and what the way back needs: h = gelu(x inner^T + bias), and the slope of gelu there.
Three feed_forward_cpu(const at::Tensor& x, const at::Tensor& inner, const at::Tensor& bias,
                       const at::Tensor& outer) {
  check_feed_forward(x, inner, bias, outer);
  const at::Tensor z = at::linear(x.to(at::kFloat), inner.to(at::kFloat), bias);
  const at::Tensor cdf = at::special_ndtr(z);
  const at::Tensor density = at::exp(-0.5 * z * z) * (1.0 / std::sqrt(2.0 * std::numbers::pi));
  const at::Tensor h = (z * cdf).to(x.scalar_type());
  return {at::linear(h, outer), h, (cdf + z * density).to(slope_type(x.scalar_type()))};
}

/// Gradients of x inner^T and of the bias.
Two feed_forward_backward_cpu(const at::Tensor& grad, const at::Tensor& outer,
                              const at::Tensor& slope) {
  check_feed_forward_backward(grad, outer, slope);
  const at::Tensor d = at::matmul(grad.to(at::kFloat), outer.to(at::kFloat)) * slope.to(at::kFloat);
  return {d.to(grad.scalar_type()), d.reshape({-1, outer.size(1)}).sum(0)};
}

// ---- Shapes -------------------------------------------------------------------------------------

/// [.., width] beside x.
at::Tensor beside(const at::Tensor& x, const c10::SymInt& width, at::ScalarType type) {
  std::vector<c10::SymInt> sizes = x.sym_sizes().vec();
  sizes.back() = width;
  return at::empty_symint(sizes, x.options().dtype(type));
}

Three feed_forward_meta(const at::Tensor& x, const at::Tensor& inner, const at::Tensor& bias,
                        const at::Tensor& outer) {
  check_feed_forward(x, inner, bias, outer);
  const at::ScalarType type = x.scalar_type();
  return {beside(x, outer.sym_size(0), type), beside(x, inner.sym_size(0), type),
          beside(x, inner.sym_size(0), slope_type(type))};
}

Two feed_forward_backward_meta(const at::Tensor& grad, const at::Tensor& outer,
                               const at::Tensor& slope) {
  check_feed_forward_backward(grad, outer, slope);
  return {beside(grad, outer.sym_size(1), grad.scalar_type()),
          at::empty_symint({outer.sym_size(1)}, grad.options().dtype(at::kFloat))};
}

// ---- Derivatives --------------------------------------------------------------------------------

at::Tensor flat_rows(const at::Tensor& x) { return x.reshape_symint({-1, x.sym_size(-1)}); }

/// Results: y, h, slope.
struct FeedForward : ::torch::autograd::Function<FeedForward> {
  static variable_list forward(AutogradContext* context, const at::Tensor& x,
                               const at::Tensor& inner, const at::Tensor& bias,
                               const at::Tensor& outer) {
    const AsTheyAre inside;
    static const auto handle =
        find_operator<Three(const at::Tensor&, const at::Tensor&, const at::Tensor&,
                            const at::Tensor&)>("rotary::feed_forward");
    auto [y, h, slope] = handle.call(x, inner, bias, outer);
    context->save_for_backward({x, inner, outer, h, slope});
    context->mark_non_differentiable({h, slope});
    context->set_materialize_grads(false);
    return {y, h, slope};
  }

  static variable_list backward(AutogradContext* context, variable_list grads) {
    variable_list results(4);
    if (!grads[0].defined()) return results;
    refuse_second_derivative("feed_forward");
    const AsTheyAre inside;
    const variable_list saved = context->get_saved_variables();
    const at::Tensor &x = saved[0], &inner = saved[1], &outer = saved[2];
    static const auto handle =
        find_operator<Two(const at::Tensor&, const at::Tensor&, const at::Tensor&)>(
            "rotary::feed_forward_backward");
    if (context->needs_input_grad(3)) results[3] = flat_rows(grads[0]).t().mm(flat_rows(saved[3]));
    at::Tensor d;
    std::tie(d, results[2]) = handle.call(grads[0], outer, saved[4]);
    if (context->needs_input_grad(1)) results[1] = flat_rows(d).t().mm(flat_rows(x));
    if (context->needs_input_grad(0)) results[0] = at::matmul(d, inner);
    return results;
  }
};

Three feed_forward_autograd(const at::Tensor& x, const at::Tensor& inner, const at::Tensor& bias,
                            const at::Tensor& outer) {
  const variable_list all = FeedForward::apply(x, inner, bias, outer);
  return {all[0], all[1], all[2]};
}

}  // namespace

at::Tensor feed_forward(const at::Tensor& x, const at::Tensor& inner, const at::Tensor& bias,
                        const at::Tensor& outer) {
  if (feed_forward_fits(x, inner, outer)) return FeedForward::apply(x, inner, bias, outer)[0];
  return at::linear(bias_gelu(at::linear(x, inner), bias), outer);
}

}  // namespace rotary::torch

TORCH_LIBRARY_FRAGMENT(rotary, m) {
  const auto add = [&m](const char* schema) { m.def(schema, {at::Tag::pt2_compliant_tag}); };
  add("feed_forward(Tensor x, Tensor inner, Tensor bias, Tensor outer) -> "
      "(Tensor, Tensor, Tensor)");
  add("feed_forward_backward(Tensor grad, Tensor outer, Tensor slope) -> (Tensor, Tensor)");
}

TORCH_LIBRARY_IMPL(rotary, CPU, m) {
  m.impl("feed_forward", rotary::torch::feed_forward_cpu);
  m.impl("feed_forward_backward", rotary::torch::feed_forward_backward_cpu);
}
TORCH_LIBRARY_IMPL(rotary, Meta, m) {
  m.impl("feed_forward", rotary::torch::feed_forward_meta);
  m.impl("feed_forward_backward", rotary::torch::feed_forward_backward_meta);
}
TORCH_LIBRARY_IMPL(rotary, Autograd, m) {
  m.impl("feed_forward", rotary::torch::feed_forward_autograd);
}
