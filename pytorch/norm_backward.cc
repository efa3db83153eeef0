// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// The operators norm_rotate_backward and norm_rotate_table_backward: gradients of inputs, weights
// and biases. The engine has one pass for them; what it does not take goes by PyTorch's operators.

#include <ATen/DeviceGuard.h>
#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>
#include <torch/library.h>

#include <algorithm>
#include <cstddef>

#include "pytorch/cuda_stream.h"
#include "pytorch/empty_result.h"
#include "pytorch/errors.h"
#include "pytorch/norm_call.h"
#include "pytorch/operator.h"
#include "pytorch/rope_cache.h"
#include "pytorch/rotation_op.h"
#include "pytorch/views.h"
#include "rotary/norm.h"
#include "rotary/rope.h"
#include "rotary/table.h"

namespace rotary::torch {
namespace {

using BackwardSignature = std::vector<at::Tensor>(at::TensorList, at::TensorList, at::TensorList,
                                                  std::string_view, const OptionalTensor&,
                                                  const OptionalTensor&, c10::SymInt, std::int64_t,
                                                  double, std::string_view, std::string_view,
                                                  std::string_view);
using TableBackwardSignature = std::vector<at::Tensor>(at::TensorList, at::TensorList,
                                                       at::TensorList, const at::Tensor&,
                                                       const at::Tensor&, std::string_view,
                                                       std::int64_t, double, std::string_view,
                                                       std::string_view, std::string_view);

/// Of one tensor. With n = r x the norm before its factor w, r = 1 / sqrt(mean(x^2) + eps), and g
/// the gradient of the norm's result: dx = r (g w - n mean(g w n)), dw = sum g n. For LayerNorm x
/// is x - mean(x), and dx is less by r mean(g w); db = sum g.
struct NormGradient {
  at::Tensor input{};
  at::Tensor weight{};
  at::Tensor bias{};
};

NormGradient norm_gradient(const at::Tensor& x, const OptionalTensor& weight,
                           const at::Tensor& grad, const HeadNorm& norm, std::int64_t token_dim) {
  const at::ScalarType type = arithmetic_of(x);
  at::Tensor wide = to_norm_rows(x, norm, token_dim).to(type);
  const at::Tensor g = to_norm_rows(grad, norm, token_dim).to(type);
  const bool has_mean = norm.kind == NormKind::kLayer;
  if (has_mean) wide = wide - wide.mean(-1, /*keepdim=*/true);
  const at::Tensor r = at::rsqrt(wide.square().mean(-1, /*keepdim=*/true) + norm.eps);
  const at::Tensor n = wide * r;
  const OptionalTensor factor = factor_of(weight, norm, type);
  const at::Tensor scaled = factor ? g * *factor : g;
  at::Tensor rest = scaled - n * (scaled * n).mean(-1, /*keepdim=*/true);
  if (has_mean) rest = rest - scaled.mean(-1, /*keepdim=*/true);
  NormGradient all{.input = from_norm_rows(r * rest, x, norm, token_dim).to(x.scalar_type())};
  if (!factor) return all;
  all.weight = (g * n).flatten(0, -2).sum(0).to(at::kDouble);
  if (has_mean) all.bias = g.flatten(0, -2).sum(0).to(at::kDouble);
  return all;
}

/// Results of each tensor in the order of the operator's.
std::vector<at::Tensor> in_order(std::vector<NormGradient>& all, bool has_weights, bool has_mean) {
  std::vector<at::Tensor> results;
  for (NormGradient& one : all) results.push_back(std::move(one.input));
  if (!has_weights) return results;
  for (NormGradient& one : all) results.push_back(std::move(one.weight));
  if (!has_mean) return results;
  for (NormGradient& one : all) results.push_back(std::move(one.bias));
  return results;
}

at::Tensor bytes_like(const at::Tensor& x, std::size_t size) {
  return at::empty({static_cast<std::int64_t>(size)}, x.options().dtype(at::kByte));
}
std::span<std::byte> span_of(const at::Tensor& bytes) {
  return {static_cast<std::byte*>(bytes.mutable_data_ptr()),
          static_cast<std::size_t>(bytes.numel())};
}

std::vector<at::Tensor> run_engine_backward(at::TensorList grads, at::TensorList tensors,
                                            at::TensorList weights, const AnglesRef& angles,
                                            HeadNorm norm) {
  constexpr std::string_view kName = "norm_rotate_backward";
  const auto rope = find_rope(angles.rope);
  const c10::OptionalDeviceGuard guard(cuda_device_of(tensors[0]));
  norm.sum_lanes = sum_lanes_of_engine(tensors[0], norm);
  const bool has_mean = norm.kind == NormKind::kLayer;
  std::vector<NormGradient> all(tensors.size());
  std::vector<at::Tensor> kept;
  std::vector<NormGradientOperand> operands;
  const auto sums_of = [](const at::Tensor& like, at::Tensor& to) {
    to = at::empty(like.sizes(), like.options().dtype(at::kDouble));
    return std::span<double>(to.mutable_data_ptr<double>(), static_cast<std::size_t>(to.numel()));
  };
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    all[i].input = empty_result_like(tensors[i]);
    NormGradientOperand x{.in = heads_view(kName, tensors[i], angles.token_dim),
                          .grad_out = heads_view(kName, grads[i], angles.token_dim),
                          .grad_in = writable_heads_view(kName, all[i].input, angles.token_dim)};
    if (!weights.empty()) {
      kept.push_back(weights[i].contiguous());
      x.weight = plain_view(kName, kept.back());
      x.grad_weight = sums_of(weights[i], all[i].weight);
      if (has_mean) x.grad_bias = sums_of(weights[i], all[i].bias);
    }
    operands.push_back(x);
  }
  translate_errors([&] {
    if (angles.has_table()) {
      const TableRope table({plain_view(kName, *angles.cos), plain_view(kName, *angles.sin)},
                            rope->layout(), table_width(*rope, *angles.cos),
                            rope->rope().options().threads);
      const at::Tensor workspace =
          bytes_like(tensors[0], table.norm_gradient_workspace(operands, norm));
      table.norm_gradient(operands, norm, span_of(workspace), stream_of(tensors[0]));
      return;
    }
    const at::Tensor workspace =
        bytes_like(tensors[0], rope->rope().norm_gradient_workspace(operands, norm));
    rope->rope().norm_gradient(operands, norm,
                               make_positions(kName, *rope, *angles.positions, operands.front().in),
                               span_of(workspace), stream_of(tensors[0]));
  });
  return in_order(all, !weights.empty(), has_mean);
}

/// On CUDA: norms that fit the kernel, whose blocks hold one with its sums.
bool has_backward_engine(at::TensorList tensors, const HeadNorm& norm, const AnglesRef& angles) {
  constexpr std::int64_t kMaxElements = 8000;
  if (angles.has_table() && !all_fit_a_view(tensors)) return false;  // as in the forward pass
  if (!tensors[0].is_cuda()) return true;
  if (norm.scope == NormScope::kHead) return true;
  for (const at::Tensor& x : tensors) {
    if (x.size(angles.token_dim == -2 ? -3 : -2) * x.size(-1) > kMaxElements) return false;
  }
  return true;
}

HeadNorm backward_norm_of(double eps, std::string_view norm, std::string_view rounding,
                          std::string_view scope) {
  const HeadNorm how = norm_of(eps, norm, rounding, scope, name_of(NormOrder::kBeforeRotation),
                               /*inverse=*/false);
  TORCH_CHECK_VALUE(how.kind != NormKind::kNone, "[norm_rotate_backward] norm must not be none");
  return how;
}

void check_grads(at::TensorList grads, at::TensorList tensors) {
  TORCH_CHECK_VALUE(grads.size() == tensors.size(),
                    "[norm_rotate_backward] a gradient for each of ", tensors.size(),
                    " tensors, got ", grads.size());
  for (std::size_t i = 0; i < grads.size(); ++i) {
    TORCH_CHECK_VALUE(grads[i].sym_sizes() == tensors[i].sym_sizes() &&
                          grads[i].scalar_type() == tensors[i].scalar_type(),
                      "[norm_rotate_backward] gradients must have the shapes and types of their "
                      "tensors");
  }
}

/// Rounds the gradients of the weights, which are sums in float64, to the weights' types: on CUDA
/// in one launch.
std::vector<at::Tensor> round_weight_gradients(std::vector<at::Tensor> results,
                                               at::TensorList weights) {
  if (weights.empty()) return results;
  const auto first = results.begin() + static_cast<std::ptrdiff_t>(weights.size());
  const std::vector<at::Tensor> sums(first, first + static_cast<std::ptrdiff_t>(weights.size()));
  std::vector<at::Tensor> rounded;
  for (const at::Tensor& w : weights) rounded.push_back(at::empty(w.sizes(), w.options()));
  at::_foreach_copy_(rounded, sums);
  std::ranges::move(rounded, first);
  return results;
}

std::vector<at::Tensor> sum_backward(at::TensorList grads, at::TensorList tensors,
                                     at::TensorList weights, const AnglesRef& angles,
                                     const HeadNorm& norm) {
  if (!has_norm_engine(tensors, {weights, {}}, angles.rope) ||
      !has_backward_engine(tensors, norm, angles)) {
    return plain_norm_backward(grads, tensors, weights, angles, norm);
  }
  if (all_fit_a_view(tensors)) {
    return run_engine_backward(grads, tensors, weights, angles, norm);
  }
  auto results =
      run_engine_backward(flatten_batches(grads), flatten_batches(tensors), weights, angles, norm);
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    results[i] = results[i].reshape(tensors[i].sizes());
  }
  return results;
}

std::vector<at::Tensor> backward(at::TensorList grads, at::TensorList tensors,
                                 at::TensorList weights, const AnglesRef& angles, HeadNorm norm) {
  check_norm(tensors, {weights, {}}, angles.rope, angles.token_dim, norm);
  check_grads(grads, tensors);
  if (tensors.empty()) return {};
  norm.rounding = NormRounding::kFloat32;  // gradients are rounded once
  return round_weight_gradients(sum_backward(grads, tensors, weights, angles, norm), weights);
}

std::vector<at::Tensor> backward_meta(at::TensorList grads, at::TensorList tensors,
                                      at::TensorList weights, std::string_view rope,
                                      std::int64_t token_dim, const HeadNorm& norm) {
  check_norm(tensors, {weights, {}}, rope, token_dim, norm);
  check_grads(grads, tensors);
  std::vector<at::Tensor> results;
  for (const at::Tensor& x : tensors) results.push_back(result_like_meta(x));
  for (const at::Tensor& w : weights) {
    results.push_back(at::empty_symint(w.sym_sizes(), w.options()));
  }
  if (norm.kind == NormKind::kLayer) {
    for (const at::Tensor& w : weights) {
      results.push_back(at::empty_symint(w.sym_sizes(), w.options().dtype(at::kDouble)));
    }
  }
  return results;
}

// ---- With the operators' signatures -------------------------------------------------------------

std::vector<at::Tensor> norm_rotate_backward(at::TensorList grads, at::TensorList tensors,
                                             at::TensorList weights, std::string_view rope,
                                             const OptionalTensor& positions,
                                             const OptionalTensor& cu_seqlens, std::int64_t first,
                                             std::int64_t token_dim, double eps,
                                             std::string_view norm, std::string_view rounding,
                                             std::string_view scope) {
  const TokenPositionsRef at{positions, cu_seqlens, first, token_dim};
  return backward(grads, tensors, weights, {rope, at},
                  backward_norm_of(eps, norm, rounding, scope));
}

std::vector<at::Tensor> norm_rotate_backward_meta(at::TensorList grads, at::TensorList tensors,
                                                  at::TensorList weights, std::string_view rope,
                                                  const OptionalTensor&, const OptionalTensor&,
                                                  c10::SymInt, std::int64_t token_dim, double eps,
                                                  std::string_view norm, std::string_view rounding,
                                                  std::string_view scope) {
  return backward_meta(grads, tensors, weights, rope, token_dim,
                       backward_norm_of(eps, norm, rounding, scope));
}

std::vector<at::Tensor> norm_rotate_table_backward(at::TensorList grads, at::TensorList tensors,
                                                   at::TensorList weights, const at::Tensor& cos,
                                                   const at::Tensor& sin, std::string_view rope,
                                                   std::int64_t token_dim, double eps,
                                                   std::string_view norm, std::string_view rounding,
                                                   std::string_view scope) {
  return backward(grads, tensors, weights, {rope, cos, sin, token_dim},
                  backward_norm_of(eps, norm, rounding, scope));
}

std::vector<at::Tensor> norm_rotate_table_backward_meta(
    at::TensorList grads, at::TensorList tensors, at::TensorList weights, const at::Tensor& /*cos*/,
    const at::Tensor& /*sin*/, std::string_view rope, std::int64_t token_dim, double eps,
    std::string_view norm, std::string_view rounding, std::string_view scope) {
  return backward_meta(grads, tensors, weights, rope, token_dim,
                       backward_norm_of(eps, norm, rounding, scope));
}

void implement_backward(::torch::Library& m) {
  m.impl("norm_rotate_backward", norm_rotate_backward);
  m.impl("norm_rotate_table_backward", norm_rotate_table_backward);
}

}  // namespace

std::vector<at::Tensor> plain_norm_backward(at::TensorList grads, at::TensorList tensors,
                                            at::TensorList weights, const AnglesRef& angles,
                                            const HeadNorm& norm) {
  std::vector<at::Tensor> wide;
  for (const at::Tensor& g : grads) wide.push_back(g.to(arithmetic_of(g)));
  const auto rotated = adjoint_by(angles, wide);
  std::vector<NormGradient> all;
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const OptionalTensor w = weights.empty() ? std::nullopt : OptionalTensor(weights[i]);
    all.push_back(norm_gradient(tensors[i], w, rotated[i], norm, angles.token_dim));
  }
  return in_order(all, !weights.empty(), norm.kind == NormKind::kLayer);
}

std::vector<at::Tensor> call_norm_rotate_backward(at::TensorList grads, at::TensorList tensors,
                                                  at::TensorList weights, const AnglesRef& angles,
                                                  const HeadNorm& norm) {
  if (angles.has_table()) {
    static const auto handle =
        find_operator<TableBackwardSignature>("rotary::norm_rotate_table_backward");
    return handle.call(grads, tensors, weights, *angles.cos, *angles.sin, angles.rope,
                       angles.token_dim, norm.eps, name_of(norm.kind), name_of(norm.rounding),
                       name_of(norm.scope));
  }
  static const auto handle = find_operator<BackwardSignature>("rotary::norm_rotate_backward");
  const TokenPositionsRef& at = *angles.positions;
  return handle.call(grads, tensors, weights, angles.rope, at.positions, at.cu_seqlens, at.first,
                     at.token_dim, norm.eps, name_of(norm.kind), name_of(norm.rounding),
                     name_of(norm.scope));
}

}  // namespace rotary::torch

TORCH_LIBRARY_IMPL(rotary, CPU, m) { rotary::torch::implement_backward(m); }
TORCH_LIBRARY_IMPL(rotary, CUDA, m) { rotary::torch::implement_backward(m); }
TORCH_LIBRARY_IMPL(rotary, Meta, m) {
  m.impl("norm_rotate_backward", rotary::torch::norm_rotate_backward_meta);
  m.impl("norm_rotate_table_backward", rotary::torch::norm_rotate_table_backward_meta);
}
