// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

#include "linear_attention/rows.h"

#include <ATen/DeviceGuard.h>
#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>
#include <torch/csrc/autograd/VariableTypeUtils.h>
#include <torch/library.h>

#include <mutex>
#include <tuple>

#include "linear_attention/sums.h"
#include "linear_attention/sums_device.h"
#include "operator.h"
#include "rotation/node.h"

namespace rotary::torch {
namespace {

using ::torch::autograd::variable_list;
using Two = std::tuple<at::Tensor, at::Tensor>;

at::Tensor call_unit_vectors_backward(const at::Tensor& g, const at::Tensor& x) {
  static const auto handle = find_operator<at::Tensor(const at::Tensor&, const at::Tensor&)>(
      "rotary::unit_vectors_backward");
  return handle.call(g, x);
}

/// 1 / |x|, wide, and 0 for 0.
at::Tensor reciprocal_lengths(const at::Tensor& wide) {
  const at::Tensor squares = wide.square().sum(-1, /*keepdim=*/true);
  const at::Tensor some = squares > 0;
  return at::where(some, at::where(some, squares, 1).rsqrt(), 0);
}

/// With y = x / |x|: (g - y (y . g)) / |x|.
at::Tensor unit_gradient(const at::Tensor& g, const at::Tensor& x) {
  const at::ScalarType type = wide_type(x.scalar_type());
  const at::Tensor r = reciprocal_lengths(x.to(type));
  const at::Tensor y = x.to(type) * r;
  const at::Tensor back = g.to(type);
  return ((back - y * (y * back).sum(-1, /*keepdim=*/true)) * r).to(x.scalar_type());
}

constexpr double kLeastDenominator = 1e-6;

/// Gradients of sums and of bounds, if there are any, with y the results and g their gradient.
Two reciprocal_gradients(const at::Tensor& g, const at::Tensor& y, const at::Tensor& sums,
                         const std::optional<at::Tensor>& bounds, double guard) {
  const at::Tensor t = -g * y * y;
  if (!bounds.has_value()) return {at::where(sums >= kLeastDenominator, t, 0), at::Tensor()};
  const at::Tensor guarded = *bounds * guard;
  const at::Tensor inside = sums.abs() < guarded.clamp_min(kLeastDenominator);
  const at::Tensor along = at::where(sums < 0, -t, t) * guard;
  return {at::where(inside, 0, t),
          at::where(inside.logical_and(guarded >= kLeastDenominator), along, 0)};
}

// ---- CPU ----------------------------------------------------------------------------------------

at::Tensor linear_reciprocals_cpu(const at::Tensor& sums, const std::optional<at::Tensor>& bounds,
                                  double guard) {
  if (!bounds.has_value()) return sums.clamp_min(kLeastDenominator).reciprocal();
  const at::Tensor least = (*bounds * guard).clamp_min(kLeastDenominator);
  const at::Tensor signed_least = at::where(sums < 0, -least, least);
  return at::where(sums.abs() < least, signed_least, sums).reciprocal();
}

Two linear_reciprocals_backward_cpu(const at::Tensor& g, const at::Tensor& y,
                                    const at::Tensor& sums, const std::optional<at::Tensor>& bounds,
                                    double guard) {
  auto [of_sums, of_bounds] = reciprocal_gradients(g, y, sums, bounds, guard);
  return {of_sums, of_bounds.defined() ? of_bounds : at::empty({0}, sums.options())};
}

at::Tensor elu_plus_one_cpu(const at::Tensor& x) {
  const at::Tensor from = x.contiguous();
  return at::exp(at::clamp_max(from, 0)).add_(at::clamp_min(from, 0));
}

at::Tensor unit_vectors_cpu(const at::Tensor& x) {
  const at::Tensor wide = x.contiguous().to(wide_type(x.scalar_type()));
  return (wide * reciprocal_lengths(wide)).to(x.scalar_type());
}

at::Tensor unit_vectors_backward_cpu(const at::Tensor& g, const at::Tensor& x) {
  return unit_gradient(g.contiguous(), x.contiguous());
}

Two scaled_rows_and_dots_cpu(const at::Tensor& a, const at::Tensor& b, const at::Tensor& scale) {
  const at::Tensor wide = a.contiguous().to(wide_type(a.scalar_type()));
  return {(wide * scale.unsqueeze(-1)).to(a.scalar_type()), (wide * b).sum(-1) / scale};
}

// ---- CUDA ---------------------------------------------------------------------------------------

at::Tensor elu_plus_one_cuda(const at::Tensor& x) {
  const at::OptionalDeviceGuard guard(x.device());
  const at::Tensor from = dense(x);
  const at::Tensor out = at::empty_like(from);
  elu_plus_one_into(from, out);
  return out;
}

at::Tensor unit_vectors_cuda(const at::Tensor& x) {
  const at::OptionalDeviceGuard guard(x.device());
  const at::Tensor from = dense(x);
  const at::Tensor out = at::empty_like(from);
  unit_vectors_into(from, at::Tensor(), out);
  return out;
}

at::Tensor unit_vectors_backward_cuda(const at::Tensor& g, const at::Tensor& x) {
  const at::OptionalDeviceGuard guard(x.device());
  const at::Tensor from = dense(x);
  const at::Tensor out = at::empty_like(from);
  unit_vectors_into(from, dense(g), out);
  return out;
}

Two scaled_rows_and_dots_cuda(const at::Tensor& a, const at::Tensor& b, const at::Tensor& scale) {
  const at::OptionalDeviceGuard guard(a.device());
  const at::Tensor rows = dense(a);
  const at::Tensor scaled = at::empty_like(rows);
  const at::Tensor dots = at::empty(scale.sizes(), scale.options());
  scaled_rows_and_dots_into(rows, dense(b), scale.contiguous(), scaled, dots);
  return {scaled, dots};
}

at::Tensor linear_reciprocals_cuda(const at::Tensor& sums, const std::optional<at::Tensor>& bounds,
                                   double guard) {
  const at::OptionalDeviceGuard device(sums.device());
  const at::Tensor from = sums.contiguous();
  const at::Tensor out = at::empty_like(from);
  reciprocals_into(from, bounds ? bounds->contiguous() : at::Tensor(), guard, out);
  return out;
}

Two linear_reciprocals_backward_cuda(const at::Tensor& g, const at::Tensor& y,
                                     const at::Tensor& sums,
                                     const std::optional<at::Tensor>& bounds, double guard) {
  const at::OptionalDeviceGuard device(sums.device());
  const at::Tensor from = sums.contiguous();
  const at::Tensor of_sums = at::empty_like(from);
  const at::Tensor of_bounds = bounds ? at::empty_like(from) : at::empty({0}, from.options());
  reciprocal_gradients_into(g.contiguous(), y.contiguous(), from,
                            bounds ? bounds->contiguous() : at::Tensor(), guard, of_sums,
                            of_bounds);
  return {of_sums, of_bounds};
}

// ---- Shapes alone -------------------------------------------------------------------------------

at::Tensor like_x(const at::Tensor& x) { return at::empty_symint(x.sym_sizes(), x.options()); }
at::Tensor like_second(const at::Tensor&, const at::Tensor& x) { return like_x(x); }
Two like_rows_and_scale(const at::Tensor& a, const at::Tensor&, const at::Tensor& scale) {
  return {like_x(a), like_x(scale)};
}

at::Tensor reciprocals_meta(const at::Tensor& sums, const std::optional<at::Tensor>&, double) {
  return like_x(sums);
}
Two reciprocals_backward_meta(const at::Tensor&, const at::Tensor&, const at::Tensor& sums,
                              const std::optional<at::Tensor>& bounds, double) {
  return {like_x(sums), bounds ? like_x(sums) : at::empty({0}, sums.options())};
}

// ---- Derivatives --------------------------------------------------------------------------------

/// Of a function of one tensor, which is kept.
template <at::Tensor (*kGradient)(const at::Tensor& g, const at::Tensor& x)>
struct OneBackward : ::torch::autograd::Node {
  Saved x{};

  std::string name() const override { return "Rotary_row_Backward"; }
  void release_variables() override {
    const std::lock_guard<std::mutex> lock(mutex_);
    x.release();
  }
  variable_list apply(variable_list&& grads) override {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (!grads[0].defined()) return {at::Tensor()};
    return {kGradient(grads[0], x.get(0))};
  }
};

template <at::Tensor (*kCall)(const at::Tensor&),
          at::Tensor (*kGradient)(const at::Tensor& g, const at::Tensor& x)>
at::Tensor differentiable(const at::Tensor& x) {
  TORCH_CHECK_NOT_IMPLEMENTED(!has_tangent(x), "[linear_attend] has no forward-mode derivative");
  at::Tensor out;
  {
    const at::AutoDispatchBelowADInplaceOrView below;
    out = kCall(x);
  }
  if (::torch::autograd::compute_requires_grad(x)) {
    auto node = make_node<OneBackward<kGradient>>();
    node->set_next_edges(::torch::autograd::collect_next_edges(x));
    node->x.add(x);
    ::torch::autograd::set_history(out, node);
  }
  return out;
}

using ReciprocalsBackward = Two(const at::Tensor&, const at::Tensor&, const at::Tensor&,
                                const std::optional<at::Tensor>&, double);

struct ReciprocalsNode : ::torch::autograd::Node {
  Saved sums{};
  Saved bounds{};  // none or one
  ::torch::autograd::SavedVariable out{};
  double guard = 0.0;

  std::string name() const override { return "Rotary_linear_reciprocals_Backward"; }
  void release_variables() override {
    const std::lock_guard<std::mutex> lock(mutex_);
    sums.release();
    bounds.release();
    out.reset_data();
  }
  variable_list apply(variable_list&& grads) override {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (!grads[0].defined()) return variable_list(2);
    const std::optional<at::Tensor> given = bounds.maybe();
    const at::Tensor y = out.unpack(getptr());
    if (at::GradMode::is_enabled()) {
      auto [of_sums, of_bounds] = reciprocal_gradients(grads[0], y, sums.get(0), given, guard);
      return {of_sums, of_bounds};
    }
    static const auto handle =
        find_operator<ReciprocalsBackward>("rotary::linear_reciprocals_backward");
    auto [of_sums, of_bounds] = handle.call(grads[0], y, sums.get(0), given, guard);
    return {of_sums, given ? of_bounds : at::Tensor()};
  }
};

at::Tensor tracked_reciprocals(const at::Tensor& sums, const std::optional<at::Tensor>& bounds,
                               double guard) {
  TORCH_CHECK_NOT_IMPLEMENTED(!has_tangent(sums) && !has_tangent(bounds),
                              "[linear_attend] has no forward-mode derivative");
  at::Tensor out;
  {
    const at::AutoDispatchBelowADInplaceOrView below;
    out = call_linear_reciprocals(sums, bounds, guard);
  }
  if (::torch::autograd::compute_requires_grad(sums, bounds)) {
    auto node = make_node<ReciprocalsNode>();
    node->set_next_edges(::torch::autograd::collect_next_edges(sums, bounds));
    node->sums.add(sums);
    node->bounds.add(bounds);
    node->guard = guard;
    ::torch::autograd::set_history(out, node);
    node->out = ::torch::autograd::SavedVariable(out, /*is_output=*/true);
  }
  return out;
}

at::Tensor elu_gradient(const at::Tensor& g, const at::Tensor& x) {
  return at::elu_backward(g, 1, 1, 1, /*is_result=*/false, x);
}

at::Tensor unit_vectors_gradient(const at::Tensor& g, const at::Tensor& x) {
  return at::GradMode::is_enabled() ? unit_gradient(g, x) : call_unit_vectors_backward(g, x);
}

}  // namespace

at::Tensor call_elu_plus_one(const at::Tensor& x) {
  static const auto handle = find_operator<at::Tensor(const at::Tensor&)>("rotary::elu_plus_one");
  return handle.call(x);
}

at::Tensor call_unit_vectors(const at::Tensor& x) {
  static const auto handle = find_operator<at::Tensor(const at::Tensor&)>("rotary::unit_vectors");
  return handle.call(x);
}

at::Tensor call_linear_reciprocals(const at::Tensor& sums, const std::optional<at::Tensor>& bounds,
                                   double guard) {
  static const auto handle =
      find_operator<at::Tensor(const at::Tensor&, const std::optional<at::Tensor>&, double)>(
          "rotary::linear_reciprocals");
  return handle.call(sums, bounds, guard);
}

std::pair<at::Tensor, at::Tensor> call_scaled_rows_and_dots(const at::Tensor& a,
                                                            const at::Tensor& b,
                                                            const at::Tensor& scale) {
  static const auto handle =
      find_operator<Two(const at::Tensor&, const at::Tensor&, const at::Tensor&)>(
          "rotary::scaled_rows_and_dots");
  auto [scaled, dots] = handle.call(a, b, scale);
  return {scaled, dots};
}

}  // namespace rotary::torch

TORCH_LIBRARY_FRAGMENT(rotary, m) {
  const auto add = [&m](const char* schema) { m.def(schema, {at::Tag::pt2_compliant_tag}); };
  add("elu_plus_one(Tensor x) -> Tensor");
  add("unit_vectors(Tensor x) -> Tensor");
  add("unit_vectors_backward(Tensor g, Tensor x) -> Tensor");
  add("linear_reciprocals(Tensor sums, Tensor? bounds=None, float guard=0.01) -> Tensor");
  add("linear_reciprocals_backward(Tensor g, Tensor y, Tensor sums, Tensor? bounds, float guard) "
      "-> "
      "(Tensor, Tensor)");
  add("scaled_rows_and_dots(Tensor a, Tensor b, Tensor scale) -> (Tensor, Tensor)");
}
TORCH_LIBRARY_IMPL(rotary, CPU, m) {
  m.impl("elu_plus_one", rotary::torch::elu_plus_one_cpu);
  m.impl("unit_vectors", rotary::torch::unit_vectors_cpu);
  m.impl("unit_vectors_backward", rotary::torch::unit_vectors_backward_cpu);
  m.impl("scaled_rows_and_dots", rotary::torch::scaled_rows_and_dots_cpu);
  m.impl("linear_reciprocals", rotary::torch::linear_reciprocals_cpu);
  m.impl("linear_reciprocals_backward", rotary::torch::linear_reciprocals_backward_cpu);
}
TORCH_LIBRARY_IMPL(rotary, CUDA, m) {
  m.impl("elu_plus_one", rotary::torch::elu_plus_one_cuda);
  m.impl("unit_vectors", rotary::torch::unit_vectors_cuda);
  m.impl("unit_vectors_backward", rotary::torch::unit_vectors_backward_cuda);
  m.impl("scaled_rows_and_dots", rotary::torch::scaled_rows_and_dots_cuda);
  m.impl("linear_reciprocals", rotary::torch::linear_reciprocals_cuda);
  m.impl("linear_reciprocals_backward", rotary::torch::linear_reciprocals_backward_cuda);
}
TORCH_LIBRARY_IMPL(rotary, Meta, m) {
  m.impl("elu_plus_one", rotary::torch::like_x);
  m.impl("unit_vectors", rotary::torch::like_x);
  m.impl("unit_vectors_backward", rotary::torch::like_second);
  m.impl("scaled_rows_and_dots", rotary::torch::like_rows_and_scale);
  m.impl("linear_reciprocals", rotary::torch::reciprocals_meta);
  m.impl("linear_reciprocals_backward", rotary::torch::reciprocals_backward_meta);
}
TORCH_LIBRARY_IMPL(rotary, Autograd, m) {
  using namespace rotary::torch;
  m.impl("elu_plus_one", differentiable<call_elu_plus_one, elu_gradient>);
  m.impl("unit_vectors", differentiable<call_unit_vectors, unit_vectors_gradient>);
  m.impl("linear_reciprocals", tracked_reciprocals);
}
