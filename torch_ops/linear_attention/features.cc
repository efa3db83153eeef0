// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

#include "linear_attention/features.h"

#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <torch/csrc/autograd/VariableTypeUtils.h>
#include <torch/library.h>

#include <cmath>
#include <mutex>

#include "linear_attention/sums.h"
#include "linear_attention/sums_device.h"
#include "rotation/node.h"

namespace rotary::torch {
namespace {

constexpr double kFavorEpsilon = 1e-4;  // of the authors' code

at::Tensor favor_features(const at::Tensor& x, Side side, const LinearAttendOptions& options) {
  const at::ScalarType wide = wide_type(x.scalar_type());
  const at::Tensor w = options.projection->to(wide);
  const double head_dim = static_cast<double>(w.size(1));
  const at::Tensor scaled = x.to(wide) * std::pow(head_dim, -0.25);
  at::Tensor exponents =
      at::matmul(scaled, w.transpose(0, 1)) - scaled.square().sum(-1, /*keepdim=*/true) * 0.5;
  if (side == Side::kQuery) {
    exponents = exponents - exponents.detach().amax({-1}, /*keepdim=*/true);
  } else if (!options.causal) {
    exponents = exponents - exponents.detach().amax({-2, -1}, /*keepdim=*/true);
  }
  const at::Tensor features =
      (exponents.exp() + kFavorEpsilon) * std::pow(static_cast<double>(w.size(0)), -0.5);
  // Exponents of keys may leave the range of float16.
  return x.scalar_type() == at::kHalf ? features : features.to(x.scalar_type());
}

// ---- elu(x) + 1, without the cancellation of elu(x) ---------------------------------------------

at::Tensor elu_plus_one_cpu(const at::Tensor& x) {
  const at::Tensor from = x.contiguous();
  return at::exp(at::clamp_max(from, 0)).add_(at::clamp_min(from, 0));
}

at::Tensor elu_plus_one_cuda(const at::Tensor& x) {
  const at::Tensor from = dense(x);
  const at::Tensor out = at::empty_like(from);
  elu_plus_one_into(from, out);
  return out;
}

at::Tensor elu_plus_one_meta(const at::Tensor& x) {
  return at::empty_symint(x.sym_sizes(), x.options());
}

struct EluBackward : ::torch::autograd::Node {
  Saved x{};

  std::string name() const override { return "Rotary_elu_plus_one_Backward"; }
  void release_variables() override {
    const std::lock_guard<std::mutex> lock(mutex_);
    x.release();
  }
  ::torch::autograd::variable_list apply(::torch::autograd::variable_list&& grads) override {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (!grads[0].defined()) return {at::Tensor()};
    return {at::elu_backward(grads[0], 1, 1, 1, /*is_result=*/false, x.get(0))};
  }
};

at::Tensor elu_plus_one(const at::Tensor& x) {
  TORCH_CHECK_NOT_IMPLEMENTED(!has_tangent(x), "[elu_plus_one] has no forward-mode derivative");
  at::Tensor out;
  {
    const at::AutoDispatchBelowADInplaceOrView below;
    out = call_elu_plus_one(x);
  }
  if (::torch::autograd::compute_requires_grad(x)) {
    auto node = make_node<EluBackward>();
    node->set_next_edges(::torch::autograd::collect_next_edges(x));
    node->x.add(x);
    ::torch::autograd::set_history(out, node);
  }
  return out;
}

}  // namespace

at::Tensor call_elu_plus_one(const at::Tensor& x) {
  static const auto handle = c10::Dispatcher::singleton()
                                 .findSchemaOrThrow("rotary::elu_plus_one", "")
                                 .typed<at::Tensor(const at::Tensor&)>();
  return handle.call(x);
}

at::Tensor feature_map(const at::Tensor& x, Side side, const LinearAttendOptions& options) {
  switch (options.feature_map) {
    case FeatureMap::kElu:
      return call_elu_plus_one(x);
    case FeatureMap::kRelu:
      return at::relu(x);
    case FeatureMap::kFavor:
      break;
  }
  return favor_features(x, side, options);
}

at::Tensor unit_vectors(const at::Tensor& x) {
  const at::Tensor wide = x.to(wide_type(x.scalar_type()));
  const at::Tensor squares = wide.square().sum(-1, /*keepdim=*/true);
  return (wide * squares.clamp_min(1e-24).rsqrt()).to(x.scalar_type());
}

at::Tensor orthogonal_features(std::int64_t features, std::int64_t head_dim,
                               std::optional<at::Generator> generator) {
  TORCH_CHECK_VALUE(features > 0 && head_dim > 0,
                    "[orthogonal_features] features and head_dim must be positive, got ", features,
                    " and ", head_dim);
  const std::int64_t blocks = (features + head_dim - 1) / head_dim;
  const auto wide = at::TensorOptions(at::kDouble);
  const at::Tensor gaussian = at::randn({blocks, head_dim, head_dim}, generator, wide);
  const auto [q, r] = at::linalg_qr(gaussian);
  // Uniform among the orthogonal matrices only with the signs of R's diagonal.
  const at::Tensor directions = q * r.diagonal(0, -2, -1).sign().unsqueeze(-2);
  const at::Tensor lengths =
      at::randn({features, head_dim}, generator, wide).square().sum(-1, /*keepdim=*/true).sqrt();
  return (directions.reshape({blocks * head_dim, head_dim}).narrow(0, 0, features) * lengths)
      .to(at::kFloat);
}

std::int64_t default_features(std::int64_t head_dim) {
  const double wanted = static_cast<double>(head_dim) * std::log(static_cast<double>(head_dim));
  return std::max<std::int64_t>(16, 16 * static_cast<std::int64_t>(std::ceil(wanted / 16.0)));
}

}  // namespace rotary::torch

TORCH_LIBRARY_FRAGMENT(rotary, m) {
  m.def("elu_plus_one(Tensor x) -> Tensor", {at::Tag::pt2_compliant_tag});
  m.def("orthogonal_features(int features, int head_dim, *, Generator? generator=None) -> Tensor",
        {at::Tag::nondeterministic_seeded});
}
TORCH_LIBRARY_IMPL(rotary, CPU, m) { m.impl("elu_plus_one", rotary::torch::elu_plus_one_cpu); }
TORCH_LIBRARY_IMPL(rotary, CUDA, m) { m.impl("elu_plus_one", rotary::torch::elu_plus_one_cuda); }
TORCH_LIBRARY_IMPL(rotary, Meta, m) { m.impl("elu_plus_one", rotary::torch::elu_plus_one_meta); }
TORCH_LIBRARY_IMPL(rotary, Autograd, m) { m.impl("elu_plus_one", rotary::torch::elu_plus_one); }
TORCH_LIBRARY_IMPL(rotary, CompositeImplicitAutograd, m) {
  m.impl("orthogonal_features", rotary::torch::orthogonal_features);
}
