// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// Autograd of linear_decay_product: gradients are products of the same kind.

#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>
#include <torch/csrc/autograd/VariableTypeUtils.h>
#include <torch/library.h>

#include <mutex>
#include <utility>

#include "pytorch/autograd_node.h"
#include "transformer/linear_attention/decay.h"

namespace rotary::transformer {
namespace {

using ::torch::autograd::compute_requires_grad;
using ::torch::autograd::SavedVariable;
using ::torch::autograd::variable_list;
using OptionalTensor = std::optional<at::Tensor>;

/// Backward of out_i = scale_i sum_j D_ij (x_i . y_j) w_j, D_ij = e^(-decay |i - j|), with h_i =
/// scale_i g_i:
///   dx_i = sum_j D_ij (h_i . w_j) y_j       dscale_i = g_i . out_i / scale_i
///   dw_j = sum_i D_ij (y_j . x_i) h_i       dy_j = sum_i D_ij (w_j . h_i) x_i
/// For j <= i, D_ij = e^(-decay i) e^(decay j) scales x_i and y_j, therefore
///   ddecay = sum_j j (y_j . dy_j) - sum_i i (x_i . dx_i)
/// and for j >= i minus that. kAll is the sum of both: distance 0 counts in neither.
struct DecayProductBackward : ::torch::autograd::Node {
  Direction direction = Direction::kCausal;
  torch::SavedTensors tensors{};  // x, y, w, decay
  torch::SavedTensors scale{};    // none or one
  SavedVariable out{};

  enum Input : std::size_t { kX, kY, kW, kDecay, kScale, kNumInputs };

  std::string name() const override { return "Rotary_linear_decay_product_Backward"; }

  void release_variables() override {
    const std::lock_guard<std::mutex> lock(mutex_);
    tensors.release();
    scale.release();
    out.reset_data();
  }

  variable_list apply(variable_list&& grads) override {
    const std::lock_guard<std::mutex> lock(mutex_);
    variable_list results(kNumInputs);
    if (!grads[0].defined()) return results;
    const at::Tensor& g = grads[0];
    const bool wants_decay = task_should_compute_output(kDecay);
    const at::ScalarType own = tensors.get(kX).scalar_type();
    // 16-bit gradients would not do for ddecay, a difference of large sums.
    const at::ScalarType type = wants_decay ? accum_type(own) : own;
    const at::Tensor x = tensors.get(kX).to(type);
    const at::Tensor y = tensors.get(kY).to(type);
    const at::Tensor w = tensors.get(kW).to(type);
    const at::Tensor decay = tensors.get(kDecay);
    const OptionalTensor factors = scale.maybe();
    const at::Tensor h = (factors ? g * factors->unsqueeze(-1) : g).to(type);
    const auto dx = [&](Direction d) {
      return call_linear_decay_product(h, w, y, decay, std::nullopt, d);
    };
    const auto dy = [&](Direction d) {
      return call_linear_decay_product(w, h, x, decay, std::nullopt, transpose(d));
    };
    if (wants_decay || task_should_compute_output(kX)) results[kX] = dx(direction);
    if (wants_decay || task_should_compute_output(kY)) results[kY] = dy(direction);
    if (task_should_compute_output(kW)) {
      results[kW] =
          call_linear_decay_product(y, x, h, decay, std::nullopt, transpose(direction)).to(own);
    }
    if (wants_decay) {
      const at::Tensor total = difference(x, results[kX], y, results[kY]);
      at::Tensor sum = direction == Direction::kReverse ? -total : total;
      if (direction == Direction::kAll) {
        const at::Tensor causal = difference(x, dx(Direction::kCausal), y, dy(Direction::kCausal));
        sum = causal - (total - causal);
      }
      results[kDecay] = sum.to(decay.scalar_type());
    }
    for (const Input each : {kX, kY}) {
      if (results[each].defined()) results[each] = results[each].to(own);
    }
    if (factors && task_should_compute_output(kScale)) {
      const at::Tensor result = out.unpack(getptr()).to(factors->scalar_type());
      results[kScale] = at::sum(g * result, {-1}) / *factors;
    }
    return results;
  }

 private:
  /// sum_j j (y_j . dy_j) - sum_i i (x_i . dx_i), in double: [heads].
  static at::Tensor difference(const at::Tensor& x, const at::Tensor& dx, const at::Tensor& y,
                               const at::Tensor& dy) {
    const at::Tensor dots = (y * dy).sum({-1}) - (x * dx).sum({-1});
    const c10::SymInt tokens = x.sym_size(-2);
    // From the middle of the sequence, which keeps the terms small: the sum of `dots` is 0.
    const at::Tensor index = at::arange(tokens, x.options().dtype(at::kDouble)) - (tokens - 1) / 2;
    const at::Tensor moments = (dots.to(at::kDouble) * index).sum({-1});  // [.., heads]
    return moments.dim() == 1 ? moments : moments.flatten(0, -2).sum({0});
  }
};

at::Tensor decay_product_autograd(const at::Tensor& x, const at::Tensor& y, const at::Tensor& w,
                                  const at::Tensor& decay, const OptionalTensor& scale,
                                  std::string_view direction) {
  for (const OptionalTensor& each :
       {OptionalTensor(x), OptionalTensor(y), OptionalTensor(w), OptionalTensor(decay), scale}) {
    TORCH_CHECK_NOT_IMPLEMENTED(!torch::has_tangent(each),
                                "[linear_decay_product] has no forward-mode derivative");
  }
  const Direction parsed = direction_of(direction);
  at::Tensor out;
  {
    const at::AutoDispatchBelowADInplaceOrView below;
    out = call_linear_decay_product(x, y, w, decay, scale, parsed);
  }
  if (compute_requires_grad(x, y, w, decay, scale)) {
    auto node = torch::make_node<DecayProductBackward>();
    node->set_next_edges(::torch::autograd::collect_next_edges(x, y, w, decay, scale));
    node->direction = parsed;
    for (const at::Tensor& each : {x, y, w, decay}) node->tensors.add(each);
    node->scale.add(scale);
    ::torch::autograd::set_history(out, node);
    if (compute_requires_grad(scale)) node->out = SavedVariable(out, /*is_output=*/true);
  }
  return out;
}

}  // namespace
}  // namespace rotary::transformer

TORCH_LIBRARY_IMPL(rotary, Autograd, m) {
  m.impl("linear_decay_product", rotary::transformer::decay_product_autograd);
}
