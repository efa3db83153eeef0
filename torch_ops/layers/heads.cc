// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// Queries, keys and values of one product, turned where they lie; on the way back their gradients
// are turned into the place where the product's gradient is wanted.

#include <ATen/DeviceGuard.h>
#include <ATen/Functions.h>
#include <ATen/core/grad_mode.h>
#include <c10/util/SmallVector.h>
#include <torch/csrc/autograd/custom_function.h>

#include <limits>
#include <utility>

#include "layers/layers_cuda.h"
#include "operator.h"
#include "rotary/rope.h"
#include "rotary/torch.h"
#include "rotary/torch_encodings.h"
#include "rotary/torch_layers.h"
#include "rotation/kernel_calls.h"
#include "rotation/rope_cache.h"
#include "rotation/views.h"

namespace rotary::torch {
namespace {

using ::torch::autograd::AutogradContext;
using ::torch::autograd::variable_list;

constexpr const char* kSplitHeads = "split_heads";
constexpr std::int64_t kTokenDim = -3;

void adjoint_into(at::TensorList from, at::TensorList to, std::string_view text,
                  const Where& where) {
  const c10::OptionalDeviceGuard guard(device_to_use(from[0]));
  const auto rope = find_rope(text);
  c10::SmallVector<Operand, 4> operands;
  for (std::size_t i = 0; i < from.size(); ++i) {
    operands.emplace_back(heads_view(kSplitHeads, from[i], kTokenDim),
                          writable_heads_view(kSplitHeads, to[i], kTokenDim));
  }
  translate([&] {
    const PositionArguments arguments{.positions = where.positions,
                                      .cu_seqlens = where.cu_seqlens,
                                      .first = where.first.expect_int()};
    rope->rope().adjoint(std::span<const Operand>(operands.begin(), operands.end()),
                         make_positions(kSplitHeads, *rope, arguments, operands[0].in),
                         stream_of(from[0]));
  });
}

at::Tensor call_row_sums(const at::Tensor& x) {
  static const auto handle = find_operator<at::Tensor(const at::Tensor&)>("rotary::row_sums");
  return handle.call(x);
}

/// Whether x [batch, tokens, heads, head_dim] has heads side by side and rows at even steps, in
/// pieces of 16 bytes.
[[maybe_unused]] bool is_of_rows(const at::Tensor& x) {
  const std::int64_t bytes = x.size(2) * x.size(3) * x.element_size();
  const std::int64_t step = x.stride(1) * x.element_size();
  return x.stride(3) == 1 && x.stride(2) == x.size(3) && x.stride(0) == x.size(1) * x.stride(1) &&
         bytes % 16 == 0 && step % 16 == 0 &&
         reinterpret_cast<std::uintptr_t>(x.const_data_ptr()) % 16 == 0;
}

/// PyTorch's copy of such rows reaches half the speed of memory.
void copy_heads(const at::Tensor& from, const at::Tensor& to) {
#ifdef ROTARY_TORCH_CUDA_KERNELS
  const std::int64_t bytes = to.size(2) * to.stride(2) * to.element_size();
  if (from.is_cuda() && from.scalar_type() == to.scalar_type() && to.numel() > 0 &&
      is_of_rows(from) && is_of_rows(to)) {
    const c10::OptionalDeviceGuard guard(from.device());
    const int error =
        cuda::launch_copy_rows(from.const_data_ptr(), to.mutable_data_ptr(),
                               to.size(0) * to.size(1), bytes, from.stride(1) * from.element_size(),
                               to.stride(1) * to.element_size(), stream_of(from).handle);
    TORCH_CHECK(error == 0, "[split_heads] CUDA error ", error);
    return;
  }
#endif
  to.copy_(from);
}

/// [batch, tokens, parts heads head_dim] as so many of [batch, tokens, heads, head_dim].
std::vector<at::Tensor> parts_of(const at::Tensor& product, std::int64_t parts,
                                 std::int64_t heads) {
  return product.view({product.size(0), product.size(1), parts * heads, -1}).split(heads, 2);
}

#ifdef ROTARY_TORCH_CUDA_KERNELS

/// The gradients of the heads as one, and its sums over rows.
std::pair<at::Tensor, at::Tensor> join_heads(at::TensorList grads, std::size_t turned,
                                             const TurnTable& table) {
  const at::Tensor& one = grads[0];
  const c10::OptionalDeviceGuard guard(one.device());
  const std::int64_t width = one.size(2) * one.size(3);
  const auto parts = static_cast<std::int64_t>(grads.size());
  const at::Tensor joined = at::empty({one.size(0), one.size(1), parts * width}, one.options());
  const std::int64_t rows = one.size(0) * one.size(1);
  const at::TensorOptions floats = one.options().dtype(at::kFloat);
  const at::Tensor sums = at::empty({parts * width}, floats);
  const at::Tensor partial = at::empty({cuda::join_rows(rows, width), parts * width}, floats);
  cuda::JoinHeads job{
      .to = joined.mutable_data_ptr(),
      .angles = table.angles.const_data_ptr<float>(),
      .places = table.places ? table.places->const_data_ptr<std::int64_t>() : nullptr,
      .partial = partial.mutable_data_ptr<float>(),
      .rows = static_cast<int>(rows),
      .tokens = static_cast<unsigned>(one.size(1)),
      .width = static_cast<int>(width),
      .head_dim = static_cast<int>(one.size(3)),
      .parts = static_cast<int>(parts),
      .turned = static_cast<int>(turned)};
  for (std::size_t i = 0; i < grads.size(); ++i) {
    job.from[i] = grads[i].const_data_ptr();
    job.step[i] = grads[i].stride(1);
  }
  const auto type = one.scalar_type() == at::kFloat      ? cuda::LayerType::kFloat
                    : one.scalar_type() == at::kBFloat16 ? cuda::LayerType::kBFloat16
                                                         : cuda::LayerType::kFloat16;
  void* stream = stream_of(one).handle;
  int error = cuda::launch_join_heads(job, type, stream);
  const int columns = static_cast<int>(parts * width);
  if (error == 0) {
    error = cuda::launch_column_sums(partial.const_data_ptr<float>(),
                                     {.sums = {sums.mutable_data_ptr<float>()}, .width = columns},
                                     partial.size(0), columns, stream);
  }
  TORCH_CHECK(error == 0, "[split_heads] CUDA error ", error);
  return {joined, sums};
}

bool can_join_heads(at::TensorList grads) {
  constexpr std::int64_t kMostRows = std::numeric_limits<std::int32_t>::max();
  const at::Tensor& one = grads[0];
  if (grads.size() > cuda::kMostParts || one.numel() == 0 ||
      one.size(0) * one.size(1) > kMostRows) {
    return false;
  }
  for (const at::Tensor& x : grads) {
    const at::ScalarType type = x.scalar_type();
    if (!x.is_cuda() || !is_of_rows(x) || x.size(3) % 8 != 0 || x.stride(1) % 8 != 0 ||
        !(type == at::kFloat || type == at::kBFloat16 || type == at::kHalf)) {
      return false;
    }
  }
  return true;
}

#else

std::pair<at::Tensor, at::Tensor> join_heads(at::TensorList, std::size_t, const TurnTable&) {
  return {};
}
bool can_join_heads(at::TensorList) { return false; }

#endif

struct SplitHeads : ::torch::autograd::Function<SplitHeads> {
  static variable_list forward(AutogradContext* context, const at::Tensor& product,
                               const std::optional<at::Tensor>& bias,
                               const SplitHeadsOptions& options) {
    // To autograd the parts are no views: what they are views of is not used again.
    const at::AutoDispatchBelowADInplaceOrView below;
    const Where& where = options.where;
    context->saved_data["bias"] = bias.has_value();
    context->saved_data["heads"] = options.heads;
    context->saved_data["turned"] = options.turned;
    context->saved_data["rope"] = options.rope;
    context->saved_data["first"] = where.first.expect_int();
    const TurnTable table = options.table.value_or(TurnTable());
    context->save_for_backward({where.positions.value_or(at::Tensor()),
                                where.cu_seqlens.value_or(at::Tensor()), table.angles,
                                table.places.value_or(at::Tensor())});
    if (options.turned > 0) {
      const at::Tensor all =
          product.view({product.size(0), product.size(1), options.parts * options.heads, -1});
      rotate_(all.narrow(2, 0, options.turned * options.heads), options.rope, where);
    }
    return parts_of(product, options.parts, options.heads);
  }

  static variable_list backward(AutogradContext* context, variable_list grads) {
    const std::int64_t heads = context->saved_data["heads"].toInt();
    const auto turned = static_cast<std::size_t>(context->saved_data["turned"].toInt());
    Where where{.first = context->saved_data["first"].toInt()};
    const variable_list saved = context->get_saved_variables();
    const bool has_bias = context->saved_data["bias"].toBool();
    if (saved[2].defined() && can_join_heads(grads)) {
      TurnTable table{.angles = saved[2]};
      if (saved[3].defined()) table.places = saved[3];
      const auto [joined, sums] = join_heads(grads, turned, table);
      return {joined, has_bias ? sums : at::Tensor(), at::Tensor()};
    }
    if (saved[0].defined()) where.positions = saved[0];
    if (saved[1].defined()) where.cu_seqlens = saved[1];
    const at::Tensor& one = grads[0];
    const auto count = static_cast<std::int64_t>(grads.size());
    const at::Tensor dproduct =
        at::empty({one.size(0), one.size(1), count * heads * one.size(3)}, one.options());
    const std::vector<at::Tensor> parts = parts_of(dproduct, count, heads);
    if (turned > 0) {
      adjoint_into(at::TensorList(grads).slice(0, turned), at::TensorList(parts).slice(0, turned),
                   context->saved_data["rope"].toStringRef(), where);
    }
    for (std::size_t i = turned; i < parts.size(); ++i) copy_heads(grads[i], parts[i]);
    return {dproduct, has_bias ? call_row_sums(dproduct) : at::Tensor(), at::Tensor()};
  }
};

}  // namespace

std::optional<TurnTable> turn_table(const std::string& rope, const Where& where,
                                    std::int64_t tokens, std::int64_t longest,
                                    const at::Tensor& like) {
  const HeadLayout& layout = find_rope(rope)->rope().layout();
  if (layout.pairing != Pairing::kInterleaved || where.positions) return std::nullopt;
  const at::NoGradGuard no_grad;
  // Pairs (1, 0) become (cos, sin).
  const auto floats = like.options().dtype(at::kFloat);
  const at::Tensor angles = at::zeros({1, longest, 1, layout.head_dim}, floats);
  angles.view({-1, 2}).select(1, 0).fill_(1);
  rotate_(angles, rope, {.first = where.first});
  TurnTable table{.angles = angles.view({longest, layout.head_dim})};
  if (where.cu_seqlens) table.places = token_positions(where, tokens, like);
  return table;
}

std::vector<at::Tensor> split_heads_(const at::Tensor& product, const SplitHeadsOptions& options) {
  TORCH_CHECK_VALUE(options.parts >= 1 && options.turned >= 0 && options.turned <= options.parts,
                    "[split_heads] turned must be from 0 to parts, ", options.parts, ", got ",
                    options.turned);
  TORCH_CHECK_VALUE(product.dim() == 3 && product.is_contiguous() && options.heads > 0 &&
                        product.size(2) % (options.parts * options.heads) == 0,
                    "[split_heads] product must be [batch, tokens, ", options.parts, " ",
                    options.heads, " head_dim] without gaps, got ", product.sizes());
  TORCH_CHECK_VALUE(
      !options.bias || (options.bias->dim() == 1 && options.bias->size(0) == product.size(2) &&
                        options.bias->scalar_type() == at::kFloat),
      "[split_heads] bias must be [", product.size(2), "] of float32");
  return SplitHeads::apply(product, options.bias, options);
}

}  // namespace rotary::torch
