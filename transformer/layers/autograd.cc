// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// Derivatives of the layers, and the functions of rotary/transformer/layers.h.

#include <ATen/Functions.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/library.h>

#include <tuple>

#include "pytorch/operator.h"
#include "rotary/transformer/layers.h"

namespace rotary::transformer {
namespace {

using ::torch::autograd::AutogradContext;
using ::torch::autograd::variable_list;
using OptionalTensor = std::optional<at::Tensor>;
using Two = std::tuple<at::Tensor, at::Tensor>;
using Three = std::tuple<at::Tensor, at::Tensor, at::Tensor>;
using Five = std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor, at::Tensor>;

/// A saved tensor; an absent one is undefined.
OptionalTensor maybe(const at::Tensor& x) {
  return x.defined() ? std::make_optional(x) : std::nullopt;
}

// ---- Residual and norm --------------------------------------------------------------------------

Three call_add_norm(const at::Tensor& x, const OptionalTensor& residual, const OptionalTensor& bias,
                    const at::Tensor& weight, const at::Tensor& shift, const OptionalTensor& seed,
                    double dropout, double eps, bool drops_result) {
  static const auto handle = torch::find_operator<Three(
      const at::Tensor&, const OptionalTensor&, const OptionalTensor&, const at::Tensor&,
      const at::Tensor&, const OptionalTensor&, double, double, bool)>("rotary::add_norm");
  return handle.call(x, residual, bias, weight, shift, seed, dropout, eps, drops_result);
}

/// Results: y, an alias of it for the next residual, mean, rstd.
struct AddNormFunction : ::torch::autograd::Function<AddNormFunction> {
  static variable_list forward(AutogradContext* context, const at::Tensor& x,
                               const OptionalTensor& residual, const OptionalTensor& bias,
                               const at::Tensor& weight, const at::Tensor& shift,
                               const OptionalTensor& seed, double dropout, double eps,
                               bool drops_result) {
    const at::AutoDispatchBelowADInplaceOrView below;
    auto [y, mean, rstd] =
        call_add_norm(x, residual, bias, weight, shift, seed, dropout, eps, drops_result);
    context->save_for_backward({x, residual.value_or(at::Tensor()), bias.value_or(at::Tensor()),
                                weight, mean, rstd, seed.value_or(at::Tensor())});
    context->saved_data["dropout"] = dropout;
    context->saved_data["drops_result"] = drops_result;
    context->mark_non_differentiable({mean, rstd});
    context->set_materialize_grads(false);
    return {y, at::alias(y), mean, rstd};
  }

  static variable_list backward(AutogradContext* context, variable_list grads) {
    variable_list results(9);
    const bool first = grads[0].defined();
    if (!first && !grads[1].defined()) return results;
    torch::refuse_second_derivative("add_norm");
    const variable_list saved = context->get_saved_variables();
    static const auto handle = torch::find_operator<Five(
        const at::Tensor&, const OptionalTensor&, const at::Tensor&, const OptionalTensor&,
        const OptionalTensor&, const at::Tensor&, const at::Tensor&, const at::Tensor&,
        const OptionalTensor&, double, bool)>("rotary::add_norm_backward");
    const double dropout = context->saved_data["dropout"].toDouble();
    const bool drops_result = context->saved_data["drops_result"].toBool();
    const auto [dx, dresidual, dbias, dweight, dshift] =
        handle.call(first ? grads[0] : grads[1], first ? maybe(grads[1]) : std::nullopt, saved[0],
                    maybe(saved[1]), maybe(saved[2]), saved[3], saved[4], saved[5], maybe(saved[6]),
                    dropout, drops_result);
    results[0] = dropout == 0.0 || drops_result ? dresidual : dx;
    if (saved[1].defined()) results[1] = dresidual;
    if (saved[2].defined()) results[2] = dbias;
    results[3] = dweight;
    results[4] = dshift;
    return results;
  }
};

Three add_norm_autograd(const at::Tensor& x, const OptionalTensor& residual,
                        const OptionalTensor& bias, const at::Tensor& weight,
                        const at::Tensor& shift, const OptionalTensor& seed, double dropout,
                        double eps, bool drops_result) {
  const variable_list all =
      AddNormFunction::apply(x, residual, bias, weight, shift, seed, dropout, eps, drops_result);
  return {all[0], all[2], all[3]};
}

// ---- Bias and GELU ------------------------------------------------------------------------------

struct BiasGeluFunction : ::torch::autograd::Function<BiasGeluFunction> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& x, const at::Tensor& bias) {
    const at::AutoDispatchBelowADInplaceOrView below;
    static const auto handle =
        torch::find_operator<at::Tensor(const at::Tensor&, const at::Tensor&)>("rotary::bias_gelu");
    context->save_for_backward({x, bias});
    return handle.call(x, bias);
  }

  static variable_list backward(AutogradContext* context, variable_list grads) {
    torch::refuse_second_derivative("bias_gelu");
    const variable_list saved = context->get_saved_variables();
    static const auto handle =
        torch::find_operator<Two(const at::Tensor&, const at::Tensor&, const at::Tensor&)>(
            "rotary::bias_gelu_backward");
    const auto [dx, dbias] = handle.call(grads[0], saved[0], saved[1]);
    return {dx, dbias};
  }
};

// ---- Cross entropy ------------------------------------------------------------------------------

/// Results: losses, lse. The logits include the bias: it is an argument for its gradient alone.
struct CrossEntropyFunction : ::torch::autograd::Function<CrossEntropyFunction> {
  static variable_list forward(AutogradContext* context, const at::Tensor& logits,
                               const at::Tensor& labels, const OptionalTensor& bias) {
    const at::AutoDispatchBelowADInplaceOrView below;
    static const auto handle =
        torch::find_operator<Two(const at::Tensor&, const at::Tensor&, const OptionalTensor&)>(
            "rotary::cross_entropy");
    auto [losses, lse] = handle.call(logits, labels, bias);
    context->save_for_backward({logits, labels, lse});
    context->saved_data["bias"] = bias.has_value();
    context->mark_non_differentiable({lse});
    context->set_materialize_grads(false);
    return {losses, lse};
  }

  static variable_list backward(AutogradContext* context, variable_list grads) {
    if (!grads[0].defined()) return {at::Tensor(), at::Tensor(), at::Tensor()};
    torch::refuse_second_derivative("mean_cross_entropy");
    const variable_list saved = context->get_saved_variables();
    static const auto handle =
        torch::find_operator<Two(const at::Tensor&, const at::Tensor&, const at::Tensor&,
                                 const at::Tensor&)>("rotary::cross_entropy_backward");
    const auto [dlogits, sums] = handle.call(grads[0], saved[0], saved[1], saved[2]);
    const bool has_bias = context->saved_data["bias"].toBool();
    return {dlogits, at::Tensor(), has_bias ? sums : at::Tensor()};
  }
};

Two cross_entropy_autograd(const at::Tensor& logits, const at::Tensor& labels,
                           const OptionalTensor& bias) {
  const variable_list all = CrossEntropyFunction::apply(logits, labels, bias);
  return {all[0], all[1]};
}

}  // namespace

std::pair<at::Tensor, at::Tensor> add_norm(const at::Tensor& x, const OptionalTensor& residual,
                                           const AddNormOptions& options) {
  const variable_list all = AddNormFunction::apply(
      x, residual, options.bias, options.weight, options.shift, options.seed, options.dropout,
      options.eps, options.dropout_of == DropoutOf::kResult);
  return {all[0], all[1]};
}

at::Tensor bias_gelu(const at::Tensor& x, const at::Tensor& bias) {
  return BiasGeluFunction::apply(x, bias);
}

at::Tensor mean_cross_entropy(const at::Tensor& logits, const at::Tensor& labels,
                              const OptionalTensor& bias) {
  return CrossEntropyFunction::apply(logits, labels, bias)[0].mean();
}

}  // namespace rotary::transformer

TORCH_LIBRARY_IMPL(rotary, Autograd, m) {
  m.impl("add_norm", rotary::transformer::add_norm_autograd);
  m.impl("bias_gelu", rotary::transformer::bias_gelu);
  m.impl("cross_entropy", rotary::transformer::cross_entropy_autograd);
}
