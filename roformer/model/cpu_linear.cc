// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

#include "roformer/model/cpu_linear.h"

#include <ATen/Context.h>
#include <ATen/Functions.h>
#include <ATen/Parallel.h>
#include <torch/csrc/autograd/custom_function.h>

#include <algorithm>
#include <cstdint>
#include <optional>

namespace rotary::roformer {
namespace {

/// a [m, k] times b [k, n].
at::Tensor multiply_by_rows(const at::Tensor& a, const at::Tensor& b) {
  // Fewer operations than this take less time than starting threads.
  constexpr std::int64_t kMinOperations = 1 << 16;
  const std::int64_t operations_of_row = std::max<std::int64_t>(1, a.size(1) * b.size(1));
  at::Tensor out = at::empty({a.size(0), b.size(1)}, a.options());
  at::parallel_for(0, a.size(0), 1 + kMinOperations / operations_of_row,
                   [&](std::int64_t begin, std::int64_t end) {
                     const at::NoGradGuard no_grad;  // of this thread
                     at::Tensor rows = out.narrow(0, begin, end - begin);
                     at::mm_out(rows, a.narrow(0, begin, end - begin), b);
                   });
  return out;
}

class LinearFunction : public ::torch::autograd::Function<LinearFunction> {
 public:
  static at::Tensor forward(::torch::autograd::AutogradContext* context, const at::Tensor& x,
                            const at::Tensor& weight, const std::optional<at::Tensor>& bias) {
    context->save_for_backward({x, weight});
    context->saved_data["has_bias"] = bias.has_value();
    return at::linear(x, weight, bias);
  }

  static ::torch::autograd::variable_list backward(::torch::autograd::AutogradContext* context,
                                                   ::torch::autograd::variable_list gradients) {
    const auto saved = context->get_saved_variables();
    const at::Tensor x = saved[0].detach();
    const at::Tensor weight = saved[1].detach();
    const at::Tensor dy = gradients[0].detach().reshape({-1, weight.size(0)});
    ::torch::autograd::variable_list results(3);
    if (context->needs_input_grad(0)) results[0] = multiply_by_rows(dy, weight).view(x.sizes());
    if (context->needs_input_grad(1)) {
      results[1] = multiply_by_rows(dy.t(), x.reshape({-1, weight.size(1)}));
    }
    if (context->saved_data["has_bias"].toBool() && context->needs_input_grad(2)) {
      results[2] = dy.sum(0);
    }
    return results;
  }
};

}  // namespace

at::Tensor cpu_linear(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias) {
  const auto optional_bias = bias.defined() ? std::optional(bias) : std::nullopt;
  if (at::hasMKL() || !x.is_cpu() || x.scalar_type() != at::kFloat || !at::GradMode::is_enabled()) {
    return at::linear(x, weight, optional_bias);
  }
  return LinearFunction::apply(x, weight, optional_bias);
}

}  // namespace rotary::roformer
