// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// Gradients of positions, frequencies and scale, by the library's kernels. For an input x and its
// gradient g (from the transpose), the gradient of a pair's phase is Im(conj(x) g) and that of the
// logarithm of its length Re(conj(x) g), whatever rotated x. So the kernels may run with a rope of
// frequency 0 where the frequencies are on a device, and at position 0 for positions.

#include <ATen/DeviceGuard.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>
#include <torch/library.h>

#include <tuple>

#include "pytorch/cuda_stream.h"
#include "pytorch/errors.h"
#include "pytorch/rope_cache.h"
#include "pytorch/views.h"
#include "rotary/rope.h"

namespace rotary::torch {
namespace {

using OptionalTensor = std::optional<at::Tensor>;

/// Tensors and gradients of a call, as the library takes them.
struct GradientOperands {
  GradientOperands(std::string_view function, at::TensorList tensors, at::TensorList grads,
                   std::int64_t token_dim) {
    TORCH_CHECK_VALUE(!tensors.empty() && tensors.size() == grads.size(), "[", function,
                      "] as many gradients as tensors, and one at least, got ", grads.size(),
                      " and ", tensors.size());
    for (std::size_t i = 0; i < tensors.size(); ++i) {
      check_rank(function, tensors[i], token_dim);
      kept.push_back(flatten_batch(tensors[i]));
      kept.push_back(flatten_batch(grads[i]));
      const std::size_t at = kept.size() - 2;
      list.push_back({.in = heads_view(function, kept[at], token_dim),
                      .grad_out = heads_view(function, kept[at + 1], token_dim)});
    }
    const ConstTensorView& x = list.front().in;
    batch = x.rank == 4 ? x.shape[0] : 1;
    tokens = x.shape[static_cast<std::size_t>(x.rank - 3)];
  }

  c10::SmallVector<at::Tensor, 8> kept{};
  c10::SmallVector<GradientOperand, 4> list{};
  std::int64_t batch = 1;
  std::int64_t tokens = 0;
};

void run(const Rope& rope, const GradientOperands& operands, const Positions& positions,
         ParameterGradients gradients) {
  const at::Tensor& like = operands.kept.front();
  at::Tensor workspace;
  if (like.is_cuda()) {
    const std::size_t size = rope.gradient_workspace(operands.batch, operands.tokens);
    workspace = at::empty({static_cast<std::int64_t>(size)}, like.options().dtype(at::kByte));
    gradients.workspace = {static_cast<std::byte*>(workspace.mutable_data_ptr()), size};
  }
  rope.gradient({operands.list.begin(), operands.list.end()}, positions, gradients,
                stream_of(like));
}

at::Tensor position_gradient(at::TensorList tensors, at::TensorList grads, std::string_view text,
                             std::string_view pairing, std::int64_t token_dim) {
  constexpr std::string_view kName = "position_gradient";
  const GradientOperands operands(kName, tensors, grads, token_dim);
  const c10::OptionalDeviceGuard guard(cuda_device_of(tensors[0]));
  const auto rope = find_rope(text);
  const std::int64_t axes = rope->frequencies().axes;
  const at::TensorOptions options = tensors[0].options().dtype(at::kDouble);
  const at::Tensor origin =
      at::zeros({1}, options.dtype(at::kLong)).expand({axes, operands.batch, operands.tokens});
  at::Tensor result = at::empty({axes, operands.batch, operands.tokens}, options);
  translate_errors([&] {
    const ConstTensorView shape = plain_view(kName, result);
    const TensorView written{.data = result.mutable_data_ptr(),
                             .dtype = shape.dtype,
                             .rank = shape.rank,
                             .shape = shape.shape,
                             .strides = shape.strides,
                             .device = shape.device};
    run(rope->at_origin(pairing == "half" ? Pairing::kHalf : Pairing::kInterleaved), operands,
        Positions::ids(plain_view(kName, origin)), {.positions = written});
  });
  return result;
}

std::tuple<at::Tensor, at::Tensor> frequency_gradient(at::TensorList tensors, at::TensorList grads,
                                                      std::string_view text,
                                                      const OptionalTensor& positions,
                                                      const OptionalTensor& cu_seqlens,
                                                      std::int64_t first, std::int64_t token_dim) {
  constexpr std::string_view kName = "frequency_gradient";
  const GradientOperands operands(kName, tensors, grads, token_dim);
  const c10::OptionalDeviceGuard guard(cuda_device_of(tensors[0]));
  const auto rope = find_rope(text);
  const Frequencies& f = rope->frequencies();
  const at::TensorOptions options = tensors[0].options().dtype(at::kDouble);
  at::Tensor frequencies = at::empty({f.pairs, f.axes}, options);
  at::Tensor length = at::empty({1}, options);
  translate_errors([&] {
    const Positions at_tokens = make_positions(
        kName, *rope, {positions, cu_seqlens, first, token_dim}, operands.list.front().in);
    run(rope->zero_frequency(), operands, at_tokens,
        {.frequencies = {frequencies.mutable_data_ptr<double>(), f.values.size()},
         .scale = length.mutable_data_ptr<double>()});
  });
  return {frequencies, length};
}

at::Tensor position_gradient_meta(at::TensorList tensors, at::TensorList, std::string_view text,
                                  std::string_view, std::int64_t token_dim) {
  const at::Tensor& x = tensors[0];
  c10::SymInt batch = 1;
  for (std::int64_t i = 0; i < x.dim() - 3; ++i) batch = batch * x.sym_size(i);
  return at::empty_symint({find_rope(text)->frequencies().axes, batch, x.sym_size(token_dim)},
                          x.options().dtype(at::kDouble));
}

std::tuple<at::Tensor, at::Tensor> frequency_gradient_meta(at::TensorList tensors, at::TensorList,
                                                           std::string_view text,
                                                           const OptionalTensor&,
                                                           const OptionalTensor&, c10::SymInt,
                                                           std::int64_t) {
  const Frequencies& f = find_rope(text)->frequencies();
  const at::TensorOptions options = tensors[0].options().dtype(at::kDouble);
  return {at::empty({f.pairs, f.axes}, options), at::empty({1}, options)};
}

void implement_gradients(::torch::Library& m) {
  m.impl("position_gradient", position_gradient);
  m.impl("frequency_gradient", frequency_gradient);
}

}  // namespace
}  // namespace rotary::torch

TORCH_LIBRARY_IMPL(rotary, CPU, m) { rotary::torch::implement_gradients(m); }
TORCH_LIBRARY_IMPL(rotary, CUDA, m) { rotary::torch::implement_gradients(m); }
TORCH_LIBRARY_IMPL(rotary, Meta, m) {
  m.impl("position_gradient", rotary::torch::position_gradient_meta);
  m.impl("frequency_gradient", rotary::torch::frequency_gradient_meta);
}
