// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// Gradients of what is not a tensor of heads, by the engine. With x what was turned and g its
// gradient, which the transpose has made, every phase has the gradient Im(conj(x) g) and every
// length Re(conj(x) g), whatever turned x. So a rope that stands still serves for frequencies that
// are on a device, and one at position 0 for positions.

#include <ATen/DeviceGuard.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>
#include <torch/library.h>

#include <tuple>

#include "rotary/rope.h"
#include "rotation/kernel_calls.h"
#include "rotation/rope_cache.h"
#include "rotation/views.h"

namespace rotary::torch {
namespace {

using OptionalTensor = std::optional<at::Tensor>;

/// Tensors and gradients of one call, as the engine takes them.
struct Heads {
  Heads(std::string_view function, at::TensorList tensors, at::TensorList grads,
        std::int64_t token_dim) {
    TORCH_CHECK_VALUE(!tensors.empty() && tensors.size() == grads.size(), "[", function,
                      "] as many gradients as tensors, and one at least, got ", grads.size(),
                      " and ", tensors.size());
    for (std::size_t i = 0; i < tensors.size(); ++i) {
      check_rank(function, tensors[i], token_dim);
      kept.push_back(with_one_batch(tensors[i]));
      kept.push_back(with_one_batch(grads[i]));
      const std::size_t at = kept.size() - 2;
      operands.push_back({.in = heads_view(function, kept[at], token_dim),
                          .grad_out = heads_view(function, kept[at + 1], token_dim)});
    }
    const ConstTensorView& x = operands.front().in;
    batch = x.rank == 4 ? x.shape[0] : 1;
    tokens = x.shape[static_cast<std::size_t>(x.rank - 3)];
  }

  c10::SmallVector<at::Tensor, 8> kept{};
  c10::SmallVector<GradientOperand, 4> operands{};
  std::int64_t batch = 1;
  std::int64_t tokens = 0;
};

void run(const Rope& rope, const Heads& heads, const Positions& positions,
         ParameterGradients gradients) {
  const at::Tensor& like = heads.kept.front();
  at::Tensor workspace;
  if (like.is_cuda()) {
    const std::size_t size = rope.gradient_workspace(heads.batch, heads.tokens);
    workspace = at::empty({static_cast<std::int64_t>(size)}, like.options().dtype(at::kByte));
    gradients.workspace = {static_cast<std::byte*>(workspace.mutable_data_ptr()), size};
  }
  rope.gradient({heads.operands.begin(), heads.operands.end()}, positions, gradients,
                stream_of(like));
}

at::Tensor position_gradient(at::TensorList tensors, at::TensorList grads, std::string_view text,
                             std::string_view pairing, std::int64_t token_dim) {
  constexpr std::string_view kName = "position_gradient";
  const Heads heads(kName, tensors, grads, token_dim);
  const c10::OptionalDeviceGuard guard(device_to_use(tensors[0]));
  const auto rope = find_rope(text);
  const std::int64_t axes = rope->frequencies().axes;
  const at::TensorOptions options = tensors[0].options().dtype(at::kDouble);
  const at::Tensor origin =
      at::zeros({1}, options.dtype(at::kLong)).expand({axes, heads.batch, heads.tokens});
  at::Tensor result = at::empty({axes, heads.batch, heads.tokens}, options);
  translate([&] {
    const ConstTensorView shape = plain_view(kName, result);
    const TensorView written{.data = result.mutable_data_ptr(),
                             .dtype = shape.dtype,
                             .rank = shape.rank,
                             .shape = shape.shape,
                             .strides = shape.strides,
                             .device = shape.device};
    run(rope->from_origin(pairing == "half" ? Pairing::kHalf : Pairing::kInterleaved), heads,
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
  const Heads heads(kName, tensors, grads, token_dim);
  const c10::OptionalDeviceGuard guard(device_to_use(tensors[0]));
  const auto rope = find_rope(text);
  const Frequencies& f = rope->frequencies();
  const at::TensorOptions options = tensors[0].options().dtype(at::kDouble);
  at::Tensor frequencies = at::empty({f.pairs, f.axes}, options);
  at::Tensor length = at::empty({1}, options);
  translate([&] {
    const Positions where =
        make_positions(kName, *rope, {positions, cu_seqlens, first}, heads.operands.front().in);
    run(rope->still(), heads, where,
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
