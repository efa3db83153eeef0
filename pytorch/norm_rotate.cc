// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// The operators norm_rotate and norm_rotate_table, and in place: a norm of every head and its
// rotation. The library's engine runs them in one pass; what it does not take is PyTorch's norm and
// a rotation.

#include <ATen/DeviceGuard.h>
#include <ATen/Functions.h>
#include <torch/library.h>

#include "pytorch/cuda_stream.h"
#include "pytorch/empty_result.h"
#include "pytorch/errors.h"
#include "pytorch/norm_call.h"
#include "pytorch/rope_cache.h"
#include "pytorch/views.h"
#include "rotary/norm.h"
#include "rotary/rope.h"
#include "rotary/table.h"

namespace rotary::torch {
namespace {

/// By a rope, or by the rows of a table.
void run_engine(at::TensorList from, at::TensorList to, const NormWeights& given,
                const AnglesRef& angles, HeadNorm norm) {
  constexpr std::string_view kName = "norm_rotate";
  const auto rope = find_rope(angles.rope);
  norm.sum_lanes = sum_lanes_of_engine(from[0], norm);
  std::vector<at::Tensor> kept;
  const auto row = [&](const OptionalTensor& x) {
    if (!x) return ConstTensorView{};
    kept.push_back(x->contiguous());
    return plain_view(kName, kept.back());
  };
  std::vector<NormOperand> operands;
  for (std::size_t i = 0; i < from.size(); ++i) {
    const TensorView out = writable_heads_view(kName, to[i], angles.token_dim);
    const Operand operand = from[i].is_same(to[i])
                                ? Operand(out)
                                : Operand(heads_view(kName, from[i], angles.token_dim), out);
    operands.emplace_back(operand, row(given.weight(i)), row(given.bias(i)));
  }
  translate_errors([&] {
    if (angles.has_table()) {
      const TableRope table({plain_view(kName, *angles.cos), plain_view(kName, *angles.sin)},
                            rope->layout(), table_width(*rope, *angles.cos),
                            rope->rope().options().threads);
      table.norm_rotate(operands, norm, stream_of(from[0]));
      return;
    }
    rope->rope().norm_rotate(
        operands, norm,
        make_positions(kName, *rope, *angles.positions, operands.front().tensors.in),
        stream_of(from[0]));
  });
}

/// A table's rows are those of the batch as it is, which cannot be flattened.
bool has_engine(at::TensorList tensors, const NormWeights& given, const AnglesRef& angles) {
  return has_norm_engine(tensors, given, angles.rope) &&
         (!angles.has_table() || all_fit_a_view(tensors));
}

std::vector<at::Tensor> apply(at::TensorList tensors, const NormWeights& given,
                              const AnglesRef& angles, const HeadNorm& norm) {
  check_norm(tensors, given, angles.rope, angles.token_dim, norm);
  if (tensors.empty()) return {};
  if (!has_engine(tensors, given, angles)) {
    return plain_norm_rotate(tensors, given, angles, norm);
  }
  const c10::OptionalDeviceGuard guard(cuda_device_of(tensors[0]));
  std::vector<at::Tensor> results;
  for (const at::Tensor& x : tensors) results.push_back(result_like(x));
  if (all_fit_a_view(tensors)) {
    run_engine(tensors, results, given, angles, norm);
  } else {
    run_engine(flatten_batches(tensors), view_batches(results), given, angles, norm);
  }
  return results;
}

void apply_in_place(at::TensorList tensors, const NormWeights& given, const AnglesRef& angles,
                    const HeadNorm& norm) {
  check_norm(tensors, given, angles.rope, angles.token_dim, norm);
  if (tensors.empty()) return;
  if (has_engine(tensors, given, angles)) {
    const c10::OptionalDeviceGuard guard(cuda_device_of(tensors[0]));
    const std::vector<at::Tensor> views = view_batches(tensors);
    return run_engine(views, views, given, angles, norm);
  }
  const auto results = plain_norm_rotate(tensors, given, angles, norm);
  for (std::size_t i = 0; i < tensors.size(); ++i) tensors[i].copy_(results[i]);
}

std::vector<at::Tensor> results_like(at::TensorList tensors) {
  std::vector<at::Tensor> results;
  for (const at::Tensor& x : tensors) results.push_back(result_like_meta(x));
  return results;
}

// ---- With the operators' signatures -------------------------------------------------------------

std::vector<at::Tensor> norm_rotate(at::TensorList tensors, at::TensorList weights,
                                    at::TensorList biases, std::string_view rope,
                                    const OptionalTensor& positions,
                                    const OptionalTensor& cu_seqlens, std::int64_t first,
                                    std::int64_t token_dim, double eps, std::string_view norm,
                                    std::string_view rounding, std::string_view scope,
                                    std::string_view order, bool inverse) {
  const TokenPositionsRef at{positions, cu_seqlens, first, token_dim};
  return apply(tensors, {weights, biases}, {rope, at},
               norm_of(eps, norm, rounding, scope, order, inverse));
}

void norm_rotate_in_place(at::TensorList tensors, at::TensorList weights, at::TensorList biases,
                          std::string_view rope, const OptionalTensor& positions,
                          const OptionalTensor& cu_seqlens, std::int64_t first,
                          std::int64_t token_dim, double eps, std::string_view norm,
                          std::string_view rounding, std::string_view scope, std::string_view order,
                          bool inverse) {
  const TokenPositionsRef at{positions, cu_seqlens, first, token_dim};
  apply_in_place(tensors, {weights, biases}, {rope, at},
                 norm_of(eps, norm, rounding, scope, order, inverse));
}

std::vector<at::Tensor> norm_rotate_meta(at::TensorList tensors, at::TensorList weights,
                                         at::TensorList biases, std::string_view rope,
                                         const OptionalTensor&, const OptionalTensor&, c10::SymInt,
                                         std::int64_t token_dim, double eps, std::string_view norm,
                                         std::string_view rounding, std::string_view scope,
                                         std::string_view order, bool inverse) {
  check_norm(tensors, {weights, biases}, rope, token_dim,
             norm_of(eps, norm, rounding, scope, order, inverse));
  return results_like(tensors);
}

void norm_rotate_in_place_meta(at::TensorList tensors, at::TensorList weights,
                               at::TensorList biases, std::string_view rope, const OptionalTensor&,
                               const OptionalTensor&, c10::SymInt, std::int64_t token_dim,
                               double eps, std::string_view norm, std::string_view rounding,
                               std::string_view scope, std::string_view order, bool inverse) {
  check_norm(tensors, {weights, biases}, rope, token_dim,
             norm_of(eps, norm, rounding, scope, order, inverse));
}

std::vector<at::Tensor> norm_rotate_table(at::TensorList tensors, at::TensorList weights,
                                          at::TensorList biases, const at::Tensor& cos,
                                          const at::Tensor& sin, std::string_view rope,
                                          std::int64_t token_dim, double eps, std::string_view norm,
                                          std::string_view rounding, std::string_view scope,
                                          std::string_view order, bool inverse) {
  return apply(tensors, {weights, biases}, {rope, cos, sin, token_dim},
               norm_of(eps, norm, rounding, scope, order, inverse));
}

void norm_rotate_table_in_place(at::TensorList tensors, at::TensorList weights,
                                at::TensorList biases, const at::Tensor& cos, const at::Tensor& sin,
                                std::string_view rope, std::int64_t token_dim, double eps,
                                std::string_view norm, std::string_view rounding,
                                std::string_view scope, std::string_view order, bool inverse) {
  apply_in_place(tensors, {weights, biases}, {rope, cos, sin, token_dim},
                 norm_of(eps, norm, rounding, scope, order, inverse));
}

std::vector<at::Tensor> norm_rotate_table_meta(at::TensorList tensors, at::TensorList weights,
                                               at::TensorList biases, const at::Tensor& /*cos*/,
                                               const at::Tensor& /*sin*/, std::string_view rope,
                                               std::int64_t token_dim, double eps,
                                               std::string_view norm, std::string_view rounding,
                                               std::string_view scope, std::string_view order,
                                               bool inverse) {
  check_norm(tensors, {weights, biases}, rope, token_dim,
             norm_of(eps, norm, rounding, scope, order, inverse));
  return results_like(tensors);
}

void norm_rotate_table_in_place_meta(at::TensorList tensors, at::TensorList weights,
                                     at::TensorList biases, const at::Tensor& /*cos*/,
                                     const at::Tensor& /*sin*/, std::string_view rope,
                                     std::int64_t token_dim, double eps, std::string_view norm,
                                     std::string_view rounding, std::string_view scope,
                                     std::string_view order, bool inverse) {
  check_norm(tensors, {weights, biases}, rope, token_dim,
             norm_of(eps, norm, rounding, scope, order, inverse));
}

void implement_norm(::torch::Library& m) {
  m.impl("norm_rotate", norm_rotate);
  m.impl("norm_rotate_", norm_rotate_in_place);
  m.impl("norm_rotate_table", norm_rotate_table);
  m.impl("norm_rotate_table_", norm_rotate_table_in_place);
}

}  // namespace
}  // namespace rotary::torch

TORCH_LIBRARY_IMPL(rotary, CPU, m) { rotary::torch::implement_norm(m); }
TORCH_LIBRARY_IMPL(rotary, CUDA, m) { rotary::torch::implement_norm(m); }
TORCH_LIBRARY_IMPL(rotary, Meta, m) {
  m.impl("norm_rotate", rotary::torch::norm_rotate_meta);
  m.impl("norm_rotate_", rotary::torch::norm_rotate_in_place_meta);
  m.impl("norm_rotate_table", rotary::torch::norm_rotate_table_meta);
  m.impl("norm_rotate_table_", rotary::torch::norm_rotate_table_in_place_meta);
}
