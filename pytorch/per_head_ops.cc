// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// The operators rotate_per_head and per_head_gradient: on CPU and CUDA, their shapes on the Meta
// device, their derivatives, and calls of them from C++.

#include <ATen/DeviceGuard.h>
#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <torch/library.h>

#include <array>
#include <mutex>

#include "pytorch/autograd_node.h"
#include "pytorch/cuda_stream.h"
#include "pytorch/errors.h"
#include "pytorch/operator.h"
#include "pytorch/per_head.h"

namespace rotary::torch {
namespace {

using ::torch::autograd::variable_list;
using OptionalTensor = std::optional<at::Tensor>;
using PerHeadSignature = std::vector<at::Tensor>(at::TensorList, const at::Tensor&,
                                                 const at::Tensor&, const OptionalTensor&,
                                                 std::string_view, std::int64_t, std::string_view);
using PerHeadResults = std::tuple<std::vector<at::Tensor>, at::Tensor, at::Tensor>;
using PerHeadGradientSignature = PerHeadResults(at::TensorList, at::TensorList, const at::Tensor&,
                                                const at::Tensor&, const OptionalTensor&,
                                                std::string_view, std::int64_t, std::string_view);

RotationOp per_head_op(std::string_view name) {
  constexpr std::array kOps = {RotationOp::kRotate, RotationOp::kAdjoint, RotationOp::kUnrotate,
                               RotationOp::kUnrotateAdjoint};
  for (const RotationOp op : kOps) {
    if (name == name_of(op)) return op;
  }
  C10_THROW_ERROR(ValueError, c10::str("[rotate_per_head] op must be rotate, adjoint, unrotate or "
                                       "unrotate_adjoint, got ",
                                       name));
}

/// Of up to four dimensions and one device; positions and frequencies contiguous and float64.
PerHeadArgs checked_args(at::TensorList tensors, const at::Tensor& positions,
                         const at::Tensor& frequencies, const OptionalTensor& scale,
                         std::string_view rope, std::int64_t token_dim, std::string_view op) {
  constexpr const char* kName = "[rotate_per_head] ";
  const Frequencies& f = find_rope(rope)->frequencies();
  TORCH_CHECK_VALUE(
      !find_rope(rope)->grows() && f.axes <= kMaxPerHeadAxes && f.pairs <= kMaxPerHeadPairs, kName,
      "the rope must have no growth, at most ", kMaxPerHeadAxes, " axes and at most ",
      kMaxPerHeadPairs, " pairs");
  TORCH_CHECK_VALUE(frequencies.dim() == 3 && frequencies.scalar_type() == at::kDouble &&
                        frequencies.size(0) > 0 && frequencies.size(1) == f.pairs &&
                        frequencies.size(2) == f.axes,
                    kName, "frequencies must be float64 of [heads, ", f.pairs, " pairs, ", f.axes,
                    " axes], got ", frequencies.sizes());
  TORCH_CHECK_VALUE(positions.dim() == 3 && positions.scalar_type() == at::kDouble &&
                        (positions.size(0) == 1 || positions.size(0) == f.axes),
                    kName, "positions must be float64 of [axes, batch, tokens], got ",
                    positions.sizes());
  TORCH_CHECK_VALUE(
      !is_given(scale) || (scale->numel() == 1 && scale->scalar_type() == at::kDouble), kName,
      "scale must be one float64");
  for (const at::Tensor& x : tensors) {
    TORCH_CHECK_VALUE((x.dim() == 3 || x.dim() == 4) && (token_dim == -3 || token_dim == -2), kName,
                      "tensors must have 3 or 4 dimensions and token_dim -3 or -2, got ", x.sizes(),
                      " and ", token_dim);
    const std::int64_t batch = x.dim() == 4 ? x.size(0) : 1;
    TORCH_CHECK_VALUE(x.size(token_dim) == positions.size(2) &&
                          (positions.size(1) == 1 || positions.size(1) == batch) &&
                          x.size(token_dim == -3 ? -2 : -3) % frequencies.size(0) == 0 &&
                          x.size(-1) == find_rope(rope)->layout().head_dim,
                      kName, "tensors must fit positions, heads and head_dim, got ", x.sizes());
    TORCH_CHECK_VALUE(x.device() == positions.device() && x.device() == frequencies.device(), kName,
                      "tensors, positions and frequencies must be on one device");
  }
  return {.positions = positions.contiguous(),
          .frequencies = frequencies.contiguous(),
          .scale = scale,
          .rope = rope,
          .token_dim = token_dim,
          .op = per_head_op(op)};
}

std::vector<at::Tensor> rotate_per_head(at::TensorList tensors, const at::Tensor& positions,
                                        const at::Tensor& frequencies, const OptionalTensor& scale,
                                        std::string_view rope, std::int64_t token_dim,
                                        std::string_view op) {
  if (tensors.empty()) return {};
  const PerHeadArgs args =
      checked_args(tensors, positions, frequencies, scale, rope, token_dim, op);
  const c10::OptionalDeviceGuard guard(cuda_device_of(tensors[0]));
  return tensors[0].is_cuda() ? rotate_per_head_on_cuda(tensors, args)
                              : rotate_per_head_on_cpu(tensors, args);
}

PerHeadResults per_head_gradient(at::TensorList tensors, at::TensorList grads,
                                 const at::Tensor& positions, const at::Tensor& frequencies,
                                 const OptionalTensor& scale, std::string_view rope,
                                 std::int64_t token_dim, std::string_view op) {
  TORCH_CHECK_VALUE(!tensors.empty() && tensors.size() == grads.size(),
                    "[per_head_gradient] as many gradients as tensors, and one at least, got ",
                    grads.size(), " and ", tensors.size());
  const PerHeadArgs args =
      checked_args(tensors, positions, frequencies, scale, rope, token_dim, op);
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    TORCH_CHECK_VALUE(tensors[i].sizes() == grads[i].sizes() &&
                          tensors[i].scalar_type() == grads[i].scalar_type() &&
                          tensors[i].device() == grads[i].device(),
                      "[per_head_gradient] tensors and gradients must have the same shape, type "
                      "and device");
  }
  const c10::OptionalDeviceGuard guard(cuda_device_of(tensors[0]));
  PerHeadGradients all = tensors[0].is_cuda() ? per_head_gradient_on_cuda(tensors, grads, args)
                                              : per_head_gradient_on_cpu(tensors, grads, args);
  return {std::move(all.inputs), all.frequencies, all.log_scale};
}

std::vector<at::Tensor> rotate_per_head_meta(at::TensorList tensors, const at::Tensor&,
                                             const at::Tensor&, const OptionalTensor&,
                                             std::string_view, std::int64_t, std::string_view) {
  std::vector<at::Tensor> results;
  for (const at::Tensor& x : tensors) results.push_back(at::empty_like(x));
  return results;
}

PerHeadResults per_head_gradient_meta(at::TensorList tensors, at::TensorList, const at::Tensor&,
                                      const at::Tensor& frequencies, const OptionalTensor&,
                                      std::string_view, std::int64_t, std::string_view) {
  std::vector<at::Tensor> results;
  for (const at::Tensor& x : tensors) results.push_back(at::empty_like(x));
  return {std::move(results), at::empty_symint(frequencies.sym_sizes(), frequencies.options()),
          at::empty({1}, frequencies.options())};
}

// ---- Derivatives --------------------------------------------------------------------------------

struct PerHeadBackward : ::torch::autograd::Node {
  std::string rope{};
  RotationOp op = RotationOp::kRotate;
  std::int64_t token_dim = -3;
  std::size_t count = 0;
  SavedTensors positions{};
  SavedTensors tensors{};
  SavedTensors frequencies{};
  SavedTensors scale{};  // none or one

  std::string name() const override { return "Rotary_per_head_Backward"; }

  void release_variables() override {
    const std::lock_guard<std::mutex> lock(mutex_);
    for (SavedTensors* saved : {&positions, &tensors, &frequencies, &scale}) saved->release();
  }

  variable_list apply(variable_list&& grads) override {
    const std::lock_guard<std::mutex> lock(mutex_);
    variable_list results(count + 2);
    const DefinedGrads defined(grads);
    if (defined.indices.empty()) return results;
    const variable_list ins = tensors.get(defined.indices);
    const PerHeadArgs args{.positions = positions.get(0),
                           .frequencies = frequencies.get(0),
                           .scale = scale.maybe(),
                           .rope = rope,
                           .token_dim = token_dim,
                           .op = op};
    PerHeadArgs back = args;
    back.op = transpose(op);
    if (!task_should_compute_output({{count, count + 2}})) {
      defined.scatter(call_rotate_per_head(defined.tensors, back), results);
      return results;
    }
    PerHeadGradients all;
    if (at::GradMode::is_enabled()) {
      all.inputs = plain_rotate_per_head(defined.tensors, back);
      std::tie(all.frequencies, all.log_scale) = plain_per_head_gradient(ins, all.inputs, args);
    } else {
      all = call_per_head_gradient(ins, defined.tensors, args);
    }
    defined.scatter(all.inputs, results);
    results[count] = all.frequencies;
    if (args.scale) {
      results[count + 1] = all.log_scale.reshape_symint(args.scale->sym_sizes()) / *args.scale;
    }
    return results;
  }
};

std::vector<at::Tensor> rotate_per_head_autograd(at::TensorList tensors,
                                                 const at::Tensor& positions,
                                                 const at::Tensor& frequencies,
                                                 const OptionalTensor& scale, std::string_view rope,
                                                 std::int64_t token_dim, std::string_view op) {
  const PerHeadArgs args{.positions = positions,
                         .frequencies = frequencies,
                         .scale = scale,
                         .rope = rope,
                         .token_dim = token_dim,
                         .op = per_head_op(op)};
  std::vector<at::Tensor> results;
  {
    const at::AutoDispatchBelowADInplaceOrView below;
    results = call_rotate_per_head(tensors, args);
  }
  if (!::torch::autograd::compute_requires_grad(tensors, frequencies, scale)) return results;
  auto node = make_node<PerHeadBackward>();
  node->set_next_edges(::torch::autograd::collect_next_edges(tensors, frequencies, scale));
  node->rope = rope;
  node->op = args.op;
  node->token_dim = token_dim;
  node->count = tensors.size();
  node->positions.add(positions);
  node->tensors.add(tensors);
  node->frequencies.add(frequencies);
  node->scale.add(scale);
  ::torch::autograd::set_history(results, node);
  return results;
}

void implement_per_head(::torch::Library& m) {
  m.impl("rotate_per_head", rotate_per_head);
  m.impl("per_head_gradient", per_head_gradient);
}

}  // namespace

std::vector<at::Tensor> call_rotate_per_head(at::TensorList tensors, const PerHeadArgs& args) {
  static const auto handle = find_operator<PerHeadSignature>("rotary::rotate_per_head");
  return handle.call(tensors, args.positions, args.frequencies, args.scale, args.rope,
                     args.token_dim, name_of(args.op));
}

PerHeadGradients call_per_head_gradient(at::TensorList tensors, at::TensorList grads,
                                        const PerHeadArgs& args) {
  static const auto handle = find_operator<PerHeadGradientSignature>("rotary::per_head_gradient");
  auto [inputs, frequencies, log_scale] =
      handle.call(tensors, grads, args.positions, args.frequencies, args.scale, args.rope,
                  args.token_dim, name_of(args.op));
  return {std::move(inputs), frequencies, log_scale};
}

}  // namespace rotary::torch

TORCH_LIBRARY_IMPL(rotary, CPU, m) { rotary::torch::implement_per_head(m); }
TORCH_LIBRARY_IMPL(rotary, CUDA, m) { rotary::torch::implement_per_head(m); }
TORCH_LIBRARY_IMPL(rotary, Meta, m) {
  m.impl("rotate_per_head", rotary::torch::rotate_per_head_meta);
  m.impl("per_head_gradient", rotary::torch::per_head_gradient_meta);
}
TORCH_LIBRARY_IMPL(rotary, Autograd, m) {
  m.impl("rotate_per_head", rotary::torch::rotate_per_head_autograd);
}
