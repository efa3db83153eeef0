// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

#include "transformer/linear_attention/rowwise.h"

#include <ATen/DeviceGuard.h>
#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>
#include <torch/csrc/autograd/VariableTypeUtils.h>
#include <torch/library.h>

#include <mutex>
#include <tuple>

#include "pytorch/autograd_node.h"
#include "pytorch/operator.h"
#include "transformer/linear_attention/scans.h"
#include "transformer/linear_attention/scans_device.h"

namespace rotary::transformer {
namespace {

using ::torch::autograd::variable_list;
using TensorPair = std::tuple<at::Tensor, at::Tensor>;

at::Tensor call_unit_vectors_backward(const at::Tensor& g, const at::Tensor& x) {
  static const auto handle = torch::find_operator<at::Tensor(const at::Tensor&, const at::Tensor&)>(
      "rotary::unit_vectors_backward");
  return handle.call(g, x);
}

/// 1 / |x|, and 0 for 0.
at::Tensor reciprocal_norms(const at::Tensor& x_accum) {
  const at::Tensor squares = x_accum.square().sum(-1, /*keepdim=*/true);
  const at::Tensor nonzero = squares > 0;
  return at::where(nonzero, at::where(nonzero, squares, 1).rsqrt(), 0);
}

/// With y = x / |x|: (g - y (y . g)) / |x|.
at::Tensor unit_vectors_gradient_by_tensors(const at::Tensor& g, const at::Tensor& x) {
  const at::ScalarType type = accum_type(x.scalar_type());
  const at::Tensor r = reciprocal_norms(x.to(type));
  const at::Tensor y = x.to(type) * r;
  const at::Tensor g_accum = g.to(type);
  return ((g_accum - y * (y * g_accum).sum(-1, /*keepdim=*/true)) * r).to(x.scalar_type());
}

constexpr double kMinDenominator = 1e-6;

/// Gradients of sums and, where there are any, of bounds: y are the reciprocals, g their gradient.
TensorPair reciprocal_gradients(const at::Tensor& g, const at::Tensor& y, const at::Tensor& sums,
                                const std::optional<at::Tensor>& bounds, double guard) {
  const at::Tensor t = -g * y * y;
  if (!bounds.has_value()) return {at::where(sums >= kMinDenominator, t, 0), at::Tensor()};
  const at::Tensor guarded = *bounds * guard;
  const at::Tensor clamped = sums.abs() < guarded.clamp_min(kMinDenominator);
  const at::Tensor d_bound = at::where(sums < 0, -t, t) * guard;
  return {at::where(clamped, 0, t),
          at::where(clamped.logical_and(guarded >= kMinDenominator), d_bound, 0)};
}

// ---- Checks -------------------------------------------------------------------------------------

void check_like(const char* name, const char* which, const at::Tensor& other, const at::Tensor& x) {
  TORCH_CHECK_VALUE(other.sym_sizes() == x.sym_sizes() && other.scalar_type() == x.scalar_type() &&
                        other.device() == x.device(),
                    "[", name, "] ", which, " must be ", x.sym_sizes(), " of ", x.scalar_type(),
                    " on ", x.device(), ", got ", other.sym_sizes(), " of ", other.scalar_type(),
                    " on ", other.device());
}

void check_rows(const at::Tensor& a, const at::Tensor& b, const at::Tensor& scale) {
  constexpr const char* kName = "scaled_rows_and_dots";
  check_like(kName, "b", b, a);
  TORCH_CHECK_VALUE(
      a.dim() >= 1 &&
          scale.sym_sizes() == a.sym_sizes().slice(0, static_cast<std::size_t>(a.dim()) - 1) &&
          scale.scalar_type() == accum_type(a.scalar_type()) && scale.device() == a.device(),
      "[", kName, "] scale must have a value for each row of ", a.sym_sizes(), " on ", a.device(),
      ", got ", scale.sym_sizes(), " of ", scale.scalar_type(), " on ", scale.device());
}

void check_bounds(const at::Tensor& sums, const std::optional<at::Tensor>& bounds) {
  if (bounds) check_like("linear_reciprocals", "bounds", *bounds, sums);
}

void check_reciprocals_backward(const at::Tensor& g, const at::Tensor& y, const at::Tensor& sums,
                                const std::optional<at::Tensor>& bounds) {
  check_like("linear_reciprocals", "the gradient", g, sums);
  check_like("linear_reciprocals", "y", y, sums);
  check_bounds(sums, bounds);
}

// ---- CPU ----------------------------------------------------------------------------------------

at::Tensor linear_reciprocals_cpu(const at::Tensor& sums, const std::optional<at::Tensor>& bounds,
                                  double guard) {
  check_bounds(sums, bounds);
  if (!bounds.has_value()) return sums.clamp_min(kMinDenominator).reciprocal();
  const at::Tensor min_abs = (*bounds * guard).clamp_min(kMinDenominator);
  const at::Tensor signed_min = at::where(sums < 0, -min_abs, min_abs);
  return at::where(sums.abs() < min_abs, signed_min, sums).reciprocal();
}

TensorPair linear_reciprocals_backward_cpu(const at::Tensor& g, const at::Tensor& y,
                                           const at::Tensor& sums,
                                           const std::optional<at::Tensor>& bounds, double guard) {
  check_reciprocals_backward(g, y, sums, bounds);
  auto [d_sums, d_bounds] = reciprocal_gradients(g, y, sums, bounds, guard);
  return {d_sums, d_bounds.defined() ? d_bounds : at::empty({0}, sums.options())};
}

at::Tensor elu_plus_one_cpu(const at::Tensor& x) {
  const at::Tensor from = x.contiguous();
  return at::exp(at::clamp_max(from, 0)).add_(at::clamp_min(from, 0));
}

at::Tensor unit_vectors_cpu(const at::Tensor& x) {
  const at::Tensor x_accum = x.contiguous().to(accum_type(x.scalar_type()));
  return (x_accum * reciprocal_norms(x_accum)).to(x.scalar_type());
}

at::Tensor unit_vectors_backward_cpu(const at::Tensor& g, const at::Tensor& x) {
  check_like("unit_vectors", "the gradient", g, x);
  return unit_vectors_gradient_by_tensors(g.contiguous(), x.contiguous());
}

TensorPair scaled_rows_and_dots_cpu(const at::Tensor& a, const at::Tensor& b,
                                    const at::Tensor& scale) {
  check_rows(a, b, scale);
  const at::Tensor a_accum = a.contiguous().to(accum_type(a.scalar_type()));
  return {(a_accum * scale.unsqueeze(-1)).to(a.scalar_type()), (a_accum * b).sum(-1) / scale};
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
  check_like("unit_vectors", "the gradient", g, x);
  const at::OptionalDeviceGuard guard(x.device());
  const at::Tensor from = dense(x);
  const at::Tensor out = at::empty_like(from);
  unit_vectors_into(from, dense(g), out);
  return out;
}

TensorPair scaled_rows_and_dots_cuda(const at::Tensor& a, const at::Tensor& b,
                                     const at::Tensor& scale) {
  check_rows(a, b, scale);
  const at::OptionalDeviceGuard guard(a.device());
  const at::Tensor a_dense = dense(a);
  const at::Tensor scaled = at::empty_like(a_dense);
  const at::Tensor dots = at::empty(scale.sizes(), scale.options());
  scaled_rows_and_dots_into(a_dense, dense(b), scale.contiguous(), scaled, dots);
  return {scaled, dots};
}

at::Tensor linear_reciprocals_cuda(const at::Tensor& sums, const std::optional<at::Tensor>& bounds,
                                   double guard) {
  check_bounds(sums, bounds);
  const at::OptionalDeviceGuard device(sums.device());
  const at::Tensor from = sums.contiguous();
  const at::Tensor out = at::empty_like(from);
  reciprocals_into(from, bounds ? bounds->contiguous() : at::Tensor(), guard, out);
  return out;
}

TensorPair linear_reciprocals_backward_cuda(const at::Tensor& g, const at::Tensor& y,
                                            const at::Tensor& sums,
                                            const std::optional<at::Tensor>& bounds, double guard) {
  check_reciprocals_backward(g, y, sums, bounds);
  const at::OptionalDeviceGuard device(sums.device());
  const at::Tensor from = sums.contiguous();
  const at::Tensor d_sums = at::empty_like(from);
  const at::Tensor d_bounds = bounds ? at::empty_like(from) : at::empty({0}, from.options());
  reciprocal_gradients_into(g.contiguous(), y.contiguous(), from,
                            bounds ? bounds->contiguous() : at::Tensor(), guard, d_sums, d_bounds);
  return {d_sums, d_bounds};
}

// ---- Meta: shapes only
// ---------------------------------------------------------------------------

at::Tensor empty_like_x(const at::Tensor& x) {
  return at::empty_symint(x.sym_sizes(), x.options());
}
at::Tensor unit_vectors_backward_meta(const at::Tensor& g, const at::Tensor& x) {
  check_like("unit_vectors", "the gradient", g, x);
  return empty_like_x(x);
}
TensorPair scaled_rows_and_dots_meta(const at::Tensor& a, const at::Tensor& b,
                                     const at::Tensor& scale) {
  check_rows(a, b, scale);
  return {empty_like_x(a), empty_like_x(scale)};
}

at::Tensor reciprocals_meta(const at::Tensor& sums, const std::optional<at::Tensor>& bounds,
                            double) {
  check_bounds(sums, bounds);
  return empty_like_x(sums);
}
TensorPair reciprocals_backward_meta(const at::Tensor& g, const at::Tensor& y,
                                     const at::Tensor& sums,
                                     const std::optional<at::Tensor>& bounds, double) {
  check_reciprocals_backward(g, y, sums, bounds);
  return {empty_like_x(sums), bounds ? empty_like_x(sums) : at::empty({0}, sums.options())};
}

// ---- Autograd -----------------------------------------------------------------------------------

/// Backward of a function of one tensor, which is saved.
template <at::Tensor (*kGradient)(const at::Tensor& g, const at::Tensor& x)>
struct UnaryBackward : ::torch::autograd::Node {
  torch::SavedTensors x{};

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
at::Tensor unary_autograd(const at::Tensor& x) {
  TORCH_CHECK_NOT_IMPLEMENTED(!torch::has_tangent(x),
                              "[linear_attend] has no forward-mode derivative");
  at::Tensor out;
  {
    const at::AutoDispatchBelowADInplaceOrView below;
    out = kCall(x);
  }
  if (::torch::autograd::compute_requires_grad(x)) {
    auto node = torch::make_node<UnaryBackward<kGradient>>();
    node->set_next_edges(::torch::autograd::collect_next_edges(x));
    node->x.add(x);
    ::torch::autograd::set_history(out, node);
  }
  return out;
}

using ReciprocalsBackwardSignature = TensorPair(const at::Tensor&, const at::Tensor&,
                                                const at::Tensor&, const std::optional<at::Tensor>&,
                                                double);

struct ReciprocalsBackward : ::torch::autograd::Node {
  torch::SavedTensors sums{};
  torch::SavedTensors bounds{};  // none or one
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
      auto [d_sums, d_bounds] = reciprocal_gradients(grads[0], y, sums.get(0), given, guard);
      return {d_sums, d_bounds};
    }
    static const auto handle =
        torch::find_operator<ReciprocalsBackwardSignature>("rotary::linear_reciprocals_backward");
    auto [d_sums, d_bounds] = handle.call(grads[0], y, sums.get(0), given, guard);
    return {d_sums, given ? d_bounds : at::Tensor()};
  }
};

at::Tensor reciprocals_autograd(const at::Tensor& sums, const std::optional<at::Tensor>& bounds,
                                double guard) {
  TORCH_CHECK_NOT_IMPLEMENTED(!torch::has_tangent(sums) && !torch::has_tangent(bounds),
                              "[linear_attend] has no forward-mode derivative");
  at::Tensor out;
  {
    const at::AutoDispatchBelowADInplaceOrView below;
    out = call_linear_reciprocals(sums, bounds, guard);
  }
  if (::torch::autograd::compute_requires_grad(sums, bounds)) {
    auto node = torch::make_node<ReciprocalsBackward>();
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
  return at::GradMode::is_enabled() ? unit_vectors_gradient_by_tensors(g, x)
                                    : call_unit_vectors_backward(g, x);
}

}  // namespace

at::Tensor call_elu_plus_one(const at::Tensor& x) {
  static const auto handle =
      torch::find_operator<at::Tensor(const at::Tensor&)>("rotary::elu_plus_one");
  return handle.call(x);
}

at::Tensor call_unit_vectors(const at::Tensor& x) {
  static const auto handle =
      torch::find_operator<at::Tensor(const at::Tensor&)>("rotary::unit_vectors");
  return handle.call(x);
}

at::Tensor call_linear_reciprocals(const at::Tensor& sums, const std::optional<at::Tensor>& bounds,
                                   double guard) {
  static const auto handle =
      torch::find_operator<at::Tensor(const at::Tensor&, const std::optional<at::Tensor>&, double)>(
          "rotary::linear_reciprocals");
  return handle.call(sums, bounds, guard);
}

std::pair<at::Tensor, at::Tensor> call_scaled_rows_and_dots(const at::Tensor& a,
                                                            const at::Tensor& b,
                                                            const at::Tensor& scale) {
  static const auto handle =
      torch::find_operator<TensorPair(const at::Tensor&, const at::Tensor&, const at::Tensor&)>(
          "rotary::scaled_rows_and_dots");
  auto [scaled, dots] = handle.call(a, b, scale);
  return {scaled, dots};
}

}  // namespace rotary::transformer

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
  m.impl("elu_plus_one", rotary::transformer::elu_plus_one_cpu);
  m.impl("unit_vectors", rotary::transformer::unit_vectors_cpu);
  m.impl("unit_vectors_backward", rotary::transformer::unit_vectors_backward_cpu);
  m.impl("scaled_rows_and_dots", rotary::transformer::scaled_rows_and_dots_cpu);
  m.impl("linear_reciprocals", rotary::transformer::linear_reciprocals_cpu);
  m.impl("linear_reciprocals_backward", rotary::transformer::linear_reciprocals_backward_cpu);
}
TORCH_LIBRARY_IMPL(rotary, CUDA, m) {
  m.impl("elu_plus_one", rotary::transformer::elu_plus_one_cuda);
  m.impl("unit_vectors", rotary::transformer::unit_vectors_cuda);
  m.impl("unit_vectors_backward", rotary::transformer::unit_vectors_backward_cuda);
  m.impl("scaled_rows_and_dots", rotary::transformer::scaled_rows_and_dots_cuda);
  m.impl("linear_reciprocals", rotary::transformer::linear_reciprocals_cuda);
  m.impl("linear_reciprocals_backward", rotary::transformer::linear_reciprocals_backward_cuda);
}
TORCH_LIBRARY_IMPL(rotary, Meta, m) {
  m.impl("elu_plus_one", rotary::transformer::empty_like_x);
  m.impl("unit_vectors", rotary::transformer::empty_like_x);
  m.impl("unit_vectors_backward", rotary::transformer::unit_vectors_backward_meta);
  m.impl("scaled_rows_and_dots", rotary::transformer::scaled_rows_and_dots_meta);
  m.impl("linear_reciprocals", rotary::transformer::reciprocals_meta);
  m.impl("linear_reciprocals_backward", rotary::transformer::reciprocals_backward_meta);
}
TORCH_LIBRARY_IMPL(rotary, Autograd, m) {
  using namespace rotary::transformer;
  m.impl("elu_plus_one", unary_autograd<call_elu_plus_one, elu_gradient>);
  m.impl("unit_vectors", unary_autograd<call_unit_vectors, unit_vectors_gradient>);
  m.impl("linear_reciprocals", reciprocals_autograd);
}
