// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// The operators norm_rotate and norm_rotate_: a norm of every head and its rotation. The library's
// engine runs them in one pass; what it does not take is PyTorch's norm and rotate.

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

namespace rotary::torch {
namespace {

void run_engine(at::TensorList from, at::TensorList to, const NormWeights& given,
                std::string_view text, const TokenPositionsRef& token_positions, HeadNorm norm) {
  constexpr std::string_view kName = "norm_rotate";
  const auto rope = find_rope(text);
  norm.sum_lanes = sum_lanes_of_engine(from[0], norm);
  std::vector<at::Tensor> kept;
  const auto row = [&](const OptionalTensor& x) {
    if (!x) return ConstTensorView{};
    kept.push_back(x->contiguous());
    return plain_view(kName, kept.back());
  };
  std::vector<NormOperand> operands;
  for (std::size_t i = 0; i < from.size(); ++i) {
    const TensorView out = writable_heads_view(kName, to[i], token_positions.token_dim);
    const Operand operand =
        from[i].is_same(to[i])
            ? Operand(out)
            : Operand(heads_view(kName, from[i], token_positions.token_dim), out);
    operands.emplace_back(operand, row(given.weight(i)), row(given.bias(i)));
  }
  translate_errors([&] {
    rope->rope().norm_rotate(
        operands, norm, make_positions(kName, *rope, token_positions, operands.front().tensors.in),
        stream_of(from[0]));
  });
}

std::vector<at::Tensor> norm_rotate(at::TensorList tensors, at::TensorList weights,
                                    at::TensorList biases, std::string_view rope,
                                    const OptionalTensor& positions,
                                    const OptionalTensor& cu_seqlens, std::int64_t first,
                                    std::int64_t token_dim, double eps, std::string_view norm,
                                    std::string_view rounding, std::string_view scope,
                                    std::string_view order, bool inverse) {
  const HeadNorm how = norm_of(eps, norm, rounding, scope, order, inverse);
  const NormWeights given{weights, biases};
  check_norm(tensors, given, rope, token_dim, how);
  if (tensors.empty()) return {};
  const TokenPositionsRef token_positions{positions, cu_seqlens, first, token_dim};
  if (!has_norm_engine(tensors, given, rope)) {
    return plain_norm_rotate(tensors, given, rope, token_positions, how);
  }
  const c10::OptionalDeviceGuard guard(cuda_device_of(tensors[0]));
  std::vector<at::Tensor> results;
  for (const at::Tensor& x : tensors) results.push_back(result_like(x));
  if (all_fit_a_view(tensors)) {
    run_engine(tensors, results, given, rope, token_positions, how);
  } else {
    run_engine(flatten_batches(tensors), view_batches(results), given, rope, token_positions, how);
  }
  return results;
}

void norm_rotate_in_place(at::TensorList tensors, at::TensorList weights, at::TensorList biases,
                          std::string_view rope, const OptionalTensor& positions,
                          const OptionalTensor& cu_seqlens, std::int64_t first,
                          std::int64_t token_dim, double eps, std::string_view norm,
                          std::string_view rounding, std::string_view scope, std::string_view order,
                          bool inverse) {
  const HeadNorm how = norm_of(eps, norm, rounding, scope, order, inverse);
  const NormWeights given{weights, biases};
  check_norm(tensors, given, rope, token_dim, how);
  if (tensors.empty()) return;
  const TokenPositionsRef token_positions{positions, cu_seqlens, first, token_dim};
  if (has_norm_engine(tensors, given, rope)) {
    const c10::OptionalDeviceGuard guard(cuda_device_of(tensors[0]));
    const std::vector<at::Tensor> views = view_batches(tensors);
    return run_engine(views, views, given, rope, token_positions, how);
  }
  const auto results = plain_norm_rotate(tensors, given, rope, token_positions, how);
  for (std::size_t i = 0; i < tensors.size(); ++i) tensors[i].copy_(results[i]);
}

std::vector<at::Tensor> norm_rotate_meta(at::TensorList tensors, at::TensorList weights,
                                         at::TensorList biases, std::string_view rope,
                                         const OptionalTensor&, const OptionalTensor&, c10::SymInt,
                                         std::int64_t token_dim, double eps, std::string_view norm,
                                         std::string_view rounding, std::string_view scope,
                                         std::string_view order, bool inverse) {
  check_norm(tensors, {weights, biases}, rope, token_dim,
             norm_of(eps, norm, rounding, scope, order, inverse));
  std::vector<at::Tensor> results;
  for (const at::Tensor& x : tensors) results.push_back(result_like_meta(x));
  return results;
}

void norm_rotate_in_place_meta(at::TensorList tensors, at::TensorList weights,
                               at::TensorList biases, std::string_view rope, const OptionalTensor&,
                               const OptionalTensor&, c10::SymInt, std::int64_t token_dim,
                               double eps, std::string_view norm, std::string_view rounding,
                               std::string_view scope, std::string_view order, bool inverse) {
  check_norm(tensors, {weights, biases}, rope, token_dim,
             norm_of(eps, norm, rounding, scope, order, inverse));
}

void implement_norm(::torch::Library& m) {
  m.impl("norm_rotate", norm_rotate);
  m.impl("norm_rotate_", norm_rotate_in_place);
}

}  // namespace
}  // namespace rotary::torch

TORCH_LIBRARY_IMPL(rotary, CPU, m) { rotary::torch::implement_norm(m); }
TORCH_LIBRARY_IMPL(rotary, CUDA, m) { rotary::torch::implement_norm(m); }
TORCH_LIBRARY_IMPL(rotary, Meta, m) {
  m.impl("norm_rotate", rotary::torch::norm_rotate_meta);
  m.impl("norm_rotate_", rotary::torch::norm_rotate_in_place_meta);
}
