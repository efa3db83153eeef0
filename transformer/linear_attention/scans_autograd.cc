// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// Autograd of the scans: gradients are scans in the transposed direction.

#include <ATen/TensorOperators.h>
#include <ATen/ops/mul.h>
#include <ATen/ops/sum.h>
#include <torch/csrc/autograd/VariableTypeUtils.h>
#include <torch/library.h>

#include <mutex>
#include <utility>

#include "pytorch/autograd_node.h"
#include "transformer/linear_attention/rowwise.h"
#include "transformer/linear_attention/scans.h"

namespace rotary::transformer {
namespace {

using ::torch::autograd::compute_requires_grad;
using ::torch::autograd::SavedVariable;
using ::torch::autograd::variable_list;
using OptionalTensor = std::optional<at::Tensor>;

void reject_tangents(const char* function, std::initializer_list<OptionalTensor> tensors) {
  for (const auto& x : tensors) {
    TORCH_CHECK_NOT_IMPLEMENTED(!torch::has_tangent(x), "[", function,
                                "] has no forward-mode derivative");
  }
}

/// a_i . b_i, in the accumulator type.
at::Tensor row_dots(const at::Tensor& a, const at::Tensor& b) {
  return at::sum(at::mul(a.to(accum_type(a.scalar_type())), b), {-1});
}

/// Backward of out_i = scale_i sum_j (x_i . y_j) w_j, with h_i = scale_i g_i:
///   dx_i = scale_i sum_j (g_i . w_j) y_j    dscale_i = g_i . out_i / scale_i
///   dw_j = sum_i (y_j . x_i) h_i            dy_j = sum_i (w_j . h_i) x_i
struct ProductBackward : ::torch::autograd::Node {
  Direction direction = Direction::kCausal;
  torch::SavedTensors tensors{};  // x, y, w
  torch::SavedTensors scale{};    // none or one
  SavedVariable out{};

  std::string name() const override { return "Rotary_linear_product_Backward"; }

  void release_variables() override {
    const std::lock_guard<std::mutex> lock(mutex_);
    tensors.release();
    scale.release();
    out.reset_data();
  }

  /// h, and the gradient of scale where it is needed.
  std::pair<at::Tensor, at::Tensor> scale_rows(const at::Tensor& g, const at::Tensor& factors) {
    if (!task_should_compute_output(3)) {
      return {at::mul(g, factors.unsqueeze(-1)).to(g.scalar_type()), at::Tensor()};
    }
    const at::Tensor result = out.unpack(getptr());
    if (!at::GradMode::is_enabled()) return call_scaled_rows_and_dots(g, result, factors);
    return {at::mul(g, factors.unsqueeze(-1)).to(g.scalar_type()), row_dots(g, result) / factors};
  }

  variable_list apply(variable_list&& grads) override {
    const std::lock_guard<std::mutex> lock(mutex_);
    variable_list results(4);
    if (!grads[0].defined()) return results;
    const at::Tensor& g = grads[0];
    const at::Tensor x = tensors.get(0);
    const at::Tensor y = tensors.get(1);
    const at::Tensor w = tensors.get(2);
    const OptionalTensor factors = scale.maybe();
    const Direction transposed = transpose(direction);
    if (task_should_compute_output(0)) {
      results[0] = call_linear_product(g, w, y, factors, direction);
    }
    at::Tensor h = g;
    if (factors.has_value()) {
      std::tie(h, results[3]) = scale_rows(g, *factors);
    }
    if (task_should_compute_output(1)) {
      results[1] = call_linear_product(w, h, x, std::nullopt, transposed);
    }
    if (task_should_compute_output(2)) {
      results[2] = call_linear_product(y, x, h, std::nullopt, transposed);
    }
    return results;
  }
};

at::Tensor product_autograd(const at::Tensor& x, const at::Tensor& y, const at::Tensor& w,
                            const OptionalTensor& scale, std::string_view direction) {
  reject_tangents("linear_product", {x, y, w, scale});
  const Direction parsed = direction_of(direction);
  at::Tensor out;
  {
    const at::AutoDispatchBelowADInplaceOrView below;
    out = call_linear_product(x, y, w, scale, parsed);
  }
  if (compute_requires_grad(x, y, w, scale)) {
    auto node = torch::make_node<ProductBackward>();
    node->set_next_edges(::torch::autograd::collect_next_edges(x, y, w, scale));
    node->direction = parsed;
    for (const at::Tensor& each : {x, y, w}) node->tensors.add(each);
    node->scale.add(scale);
    ::torch::autograd::set_history(out, node);
    if (compute_requires_grad(scale)) node->out = SavedVariable(out, /*is_output=*/true);
  }
  return out;
}

/// Backward of out_i = x_i . sum_j y_j:  dx_i = g_i sum_j y_j,  dy_j = sum_i g_i x_i.
struct DotBackward : ::torch::autograd::Node {
  Direction direction = Direction::kCausal;
  torch::SavedTensors tensors{};  // x, y

  std::string name() const override { return "Rotary_linear_dot_Backward"; }

  void release_variables() override {
    const std::lock_guard<std::mutex> lock(mutex_);
    tensors.release();
  }

  variable_list apply(variable_list&& grads) override {
    const std::lock_guard<std::mutex> lock(mutex_);
    variable_list results(2);
    if (!grads[0].defined()) return results;
    const at::Tensor g = grads[0].contiguous();
    if (task_should_compute_output(0)) {
      results[0] = call_linear_sum(tensors.get(1), std::nullopt, g, direction);
    }
    if (task_should_compute_output(1)) {
      results[1] = call_linear_sum(tensors.get(0), g, std::nullopt, transpose(direction));
    }
    return results;
  }
};

at::Tensor dot_autograd(const at::Tensor& x, const at::Tensor& y, std::string_view direction) {
  reject_tangents("linear_dot", {x, y});
  const Direction parsed = direction_of(direction);
  at::Tensor out;
  {
    const at::AutoDispatchBelowADInplaceOrView below;
    out = call_linear_dot(x, y, parsed);
  }
  if (compute_requires_grad(x, y)) {
    auto node = torch::make_node<DotBackward>();
    node->set_next_edges(::torch::autograd::collect_next_edges(x, y));
    node->direction = parsed;
    for (const at::Tensor& each : {x, y}) node->tensors.add(each);
    ::torch::autograd::set_history(out, node);
  }
  return out;
}

/// Backward of out_i = scale_i sum_j weight_j x_j:
///   dx_j = weight_j sum_i scale_i g_i       dweight_j = x_j . sum_i scale_i g_i
///   dscale_i = g_i . sum_j weight_j x_j
struct SumBackward : ::torch::autograd::Node {
  Direction direction = Direction::kCausal;
  torch::SavedTensors x{};
  torch::SavedTensors weight{};  // none or one
  torch::SavedTensors scale{};   // none or one

  std::string name() const override { return "Rotary_linear_sum_Backward"; }

  void release_variables() override {
    const std::lock_guard<std::mutex> lock(mutex_);
    for (torch::SavedTensors* each : {&x, &weight, &scale}) each->release();
  }

  variable_list apply(variable_list&& grads) override {
    const std::lock_guard<std::mutex> lock(mutex_);
    variable_list results(3);
    if (!grads[0].defined()) return results;
    const at::Tensor& g = grads[0];
    const OptionalTensor weights = weight.maybe();
    const OptionalTensor factors = scale.maybe();
    const Direction transposed = transpose(direction);
    if (task_should_compute_output(0))
      results[0] = call_linear_sum(g, factors, weights, transposed);
    if (weights.has_value() && task_should_compute_output(1)) {
      results[1] = row_dots(x.get(0), call_linear_sum(g, factors, std::nullopt, transposed));
    }
    if (factors.has_value() && task_should_compute_output(2)) {
      results[2] = row_dots(g, call_linear_sum(x.get(0), weights, std::nullopt, direction));
    }
    return results;
  }
};

at::Tensor sum_autograd(const at::Tensor& x, const OptionalTensor& weight,
                        const OptionalTensor& scale, std::string_view direction) {
  reject_tangents("linear_sum", {x, weight, scale});
  const Direction parsed = direction_of(direction);
  at::Tensor out;
  {
    const at::AutoDispatchBelowADInplaceOrView below;
    out = call_linear_sum(x, weight, scale, parsed);
  }
  if (compute_requires_grad(x, weight, scale)) {
    auto node = torch::make_node<SumBackward>();
    node->set_next_edges(::torch::autograd::collect_next_edges(x, weight, scale));
    node->direction = parsed;
    node->x.add(x);
    node->weight.add(weight);
    node->scale.add(scale);
    ::torch::autograd::set_history(out, node);
  }
  return out;
}

}  // namespace
}  // namespace rotary::transformer

TORCH_LIBRARY_IMPL(rotary, Autograd, m) {
  m.impl("linear_product", rotary::transformer::product_autograd);
  m.impl("linear_dot", rotary::transformer::dot_autograd);
  m.impl("linear_sum", rotary::transformer::sum_autograd);
}
