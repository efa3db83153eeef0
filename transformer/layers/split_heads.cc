// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// split_heads_(): queries, keys and values of one product, rotated in place. Backward rotates their
// gradients back and writes them straight into the gradient of the product.

#include <ATen/DeviceGuard.h>
#include <ATen/Functions.h>
#include <ATen/core/grad_mode.h>
#include <c10/util/SmallVector.h>
#include <torch/csrc/autograd/custom_function.h>

#include <limits>
#include <utility>

#include "pytorch/cuda_stream.h"
#include "pytorch/errors.h"
#include "pytorch/operator.h"
#include "pytorch/rope_cache.h"
#include "pytorch/views.h"
#include "rotary/rope.h"
#include "rotary/torch.h"
#include "rotary/transformer/encodings.h"
#include "rotary/transformer/layers.h"
#include "transformer/kernels/aligned.h"
#include "transformer/kernels/launch.h"
#include "transformer/layers/kernels.h"

namespace rotary::transformer {
namespace {

using ::torch::autograd::AutogradContext;
using ::torch::autograd::variable_list;

constexpr const char* kSplitHeads = "split_heads";
constexpr std::int64_t kTokenDim = -3;

/// Rotates gradients back, out of place.
void adjoint_into(at::TensorList from, at::TensorList to, std::string_view text,
                  const torch::TokenPositions& positions) {
  const c10::OptionalDeviceGuard guard(torch::cuda_device_of(from[0]));
  const auto rope = torch::find_rope(text);
  c10::SmallVector<Operand, 4> operands;
  for (std::size_t i = 0; i < from.size(); ++i) {
    operands.emplace_back(torch::heads_view(kSplitHeads, from[i], kTokenDim),
                          torch::writable_heads_view(kSplitHeads, to[i], kTokenDim));
  }
  torch::translate_errors([&] {
    rope->rope().adjoint(std::span<const Operand>(operands.begin(), operands.end()),
                         torch::make_positions(kSplitHeads, *rope, positions, operands[0].in),
                         torch::stream_of(from[0]));
  });
}

at::Tensor call_row_sums(const at::Tensor& x) {
  static const auto handle =
      torch::find_operator<at::Tensor(const at::Tensor&)>("rotary::row_sums");
  return handle.call(x);
}

/// Whether x [batch, tokens, heads, head_dim] is a matrix [batch tokens, heads head_dim] with rows
/// that kernels can access 16 bytes at a time.
[[maybe_unused]] bool has_packed_rows(const at::Tensor& x) {
  const std::int64_t bytes = x.size(2) * x.size(3) * x.element_size();
  const std::int64_t step = x.stride(1) * x.element_size();
  return x.stride(3) == 1 && x.stride(2) == x.size(3) && x.stride(0) == x.size(1) * x.stride(1) &&
         bytes % 16 == 0 && step % 16 == 0 && is_aligned(x);
}

/// A kernel of our own, since PyTorch's copy of strided rows reaches half of memory bandwidth.
void copy_heads(const at::Tensor& from, const at::Tensor& to) {
#ifdef ROTARY_TORCH_CUDA_KERNELS
  const std::int64_t bytes = to.size(2) * to.stride(2) * to.element_size();
  if (from.is_cuda() && from.scalar_type() == to.scalar_type() && to.numel() > 0 &&
      has_packed_rows(from) && has_packed_rows(to)) {
    const c10::OptionalDeviceGuard guard(from.device());
    check_launch(
        "split_heads",
        cuda::launch_copy_rows(from.const_data_ptr(), to.mutable_data_ptr(),
                               to.size(0) * to.size(1), bytes, from.stride(1) * from.element_size(),
                               to.stride(1) * to.element_size(), torch::stream_of(from).handle));
    return;
  }
#endif
  to.copy_(from);
}

/// Views [batch, tokens, heads, head_dim] of [batch, tokens, count heads head_dim].
std::vector<at::Tensor> projections_of(const at::Tensor& product, std::int64_t count,
                                       std::int64_t heads) {
  return product.view({product.size(0), product.size(1), count * heads, -1}).split(heads, 2);
}

#ifdef ROTARY_TORCH_CUDA_KERNELS

/// Gradient of the product, and its sum over rows: the gradient of the bias.
std::pair<at::Tensor, at::Tensor> fused_backward(at::TensorList grads, std::size_t num_rotated,
                                                 const RotationTable& table) {
  const at::Tensor& one = grads[0];
  const c10::OptionalDeviceGuard guard(one.device());
  const std::int64_t width = one.size(2) * one.size(3);
  const auto projections = static_cast<std::int64_t>(grads.size());
  const at::Tensor dproduct =
      at::empty({one.size(0), one.size(1), projections * width}, one.options());
  const std::int64_t rows = one.size(0) * one.size(1);
  const at::TensorOptions floats = one.options().dtype(at::kFloat);
  const at::Tensor sums = at::empty({projections * width}, floats);
  const at::Tensor partial =
      at::empty({cuda::split_heads_blocks(rows, width), projections * width}, floats);
  cuda::SplitHeadsBackward params{
      .dproduct = dproduct.mutable_data_ptr(),
      .cos_sin = table.cos_sin.const_data_ptr<float>(),
      .table_rows = table.rows ? table.rows->const_data_ptr<std::int64_t>() : nullptr,
      .partial = partial.mutable_data_ptr<float>(),
      .rows = static_cast<int>(rows),
      .tokens = static_cast<unsigned>(one.size(1)),
      .width = static_cast<int>(width),
      .head_dim = static_cast<int>(one.size(3)),
      .projections = static_cast<int>(projections),
      .rotated = static_cast<int>(num_rotated)};
  for (std::size_t i = 0; i < grads.size(); ++i) {
    params.grads[i] = grads[i].const_data_ptr();
    params.row_stride[i] = grads[i].stride(1);
  }
  const cuda::ElementType type = element_type(one.scalar_type());
  void* stream = torch::stream_of(one).handle;
  check_launch("split_heads", cuda::launch_split_heads_backward(params, type, stream));
  const int columns = static_cast<int>(projections * width);
  check_launch("split_heads", cuda::launch_column_sums(
                                  partial.const_data_ptr<float>(),
                                  {.sums = {sums.mutable_data_ptr<float>()}, .width = columns},
                                  partial.size(0), columns, stream));
  return {dproduct, sums};
}

bool has_fused_backward(at::TensorList grads) {
  constexpr std::int64_t kMaxRows = std::numeric_limits<std::int32_t>::max();
  const at::Tensor& one = grads[0];
  if (grads.size() > cuda::kMaxProjections || one.numel() == 0 ||
      one.size(0) * one.size(1) > kMaxRows) {
    return false;
  }
  for (const at::Tensor& x : grads) {
    const at::ScalarType type = x.scalar_type();
    if (!x.is_cuda() || !has_packed_rows(x) || x.size(3) % 8 != 0 || x.stride(1) % 8 != 0 ||
        !(type == at::kFloat || type == at::kBFloat16 || type == at::kHalf)) {
      return false;
    }
  }
  return true;
}

#else

std::pair<at::Tensor, at::Tensor> fused_backward(at::TensorList, std::size_t,
                                                 const RotationTable&) {
  return {};
}
bool has_fused_backward(at::TensorList) { return false; }

#endif

struct SplitHeads : ::torch::autograd::Function<SplitHeads> {
  static variable_list forward(AutogradContext* context, const at::Tensor& product,
                               const std::optional<at::Tensor>& bias,
                               const SplitHeadsOptions& options) {
    // Autograd does not see that the results are views: the product is not used again.
    const at::AutoDispatchBelowADInplaceOrView below;
    const torch::TokenPositions& positions = options.positions;
    context->saved_data["bias"] = bias.has_value();
    context->saved_data["heads"] = options.heads;
    context->saved_data["num_rotated"] = options.num_rotated;
    context->saved_data["rope"] = options.rope;
    context->saved_data["first"] = positions.first.expect_int();
    const RotationTable table = options.table.value_or(RotationTable());
    context->save_for_backward({positions.positions.value_or(at::Tensor()),
                                positions.cu_seqlens.value_or(at::Tensor()), table.cos_sin,
                                table.rows.value_or(at::Tensor())});
    if (options.num_rotated > 0) {
      const at::Tensor all = product.view(
          {product.size(0), product.size(1), options.num_projections * options.heads, -1});
      torch::rotate_(all.narrow(2, 0, options.num_rotated * options.heads), options.rope,
                     positions);
    }
    return projections_of(product, options.num_projections, options.heads);
  }

  static variable_list backward(AutogradContext* context, variable_list grads) {
    const std::int64_t heads = context->saved_data["heads"].toInt();
    const auto num_rotated = static_cast<std::size_t>(context->saved_data["num_rotated"].toInt());
    torch::TokenPositions positions{.first = context->saved_data["first"].toInt()};
    const variable_list saved = context->get_saved_variables();
    const bool has_bias = context->saved_data["bias"].toBool();
    if (saved[2].defined() && has_fused_backward(grads)) {
      RotationTable table{.cos_sin = saved[2]};
      if (saved[3].defined()) table.rows = saved[3];
      const auto [dproduct, sums] = fused_backward(grads, num_rotated, table);
      return {dproduct, has_bias ? sums : at::Tensor(), at::Tensor()};
    }
    if (saved[0].defined()) positions.positions = saved[0];
    if (saved[1].defined()) positions.cu_seqlens = saved[1];
    const at::Tensor& one = grads[0];
    const auto count = static_cast<std::int64_t>(grads.size());
    const at::Tensor dproduct =
        at::empty({one.size(0), one.size(1), count * heads * one.size(3)}, one.options());
    const std::vector<at::Tensor> projections = projections_of(dproduct, count, heads);
    if (num_rotated > 0) {
      adjoint_into(at::TensorList(grads).slice(0, num_rotated),
                   at::TensorList(projections).slice(0, num_rotated),
                   context->saved_data["rope"].toStringRef(), positions);
    }
    for (std::size_t i = num_rotated; i < projections.size(); ++i) {
      copy_heads(grads[i], projections[i]);
    }
    return {dproduct, has_bias ? call_row_sums(dproduct) : at::Tensor(), at::Tensor()};
  }
};

}  // namespace

std::optional<RotationTable> rotation_table(const std::string& rope,
                                            const torch::TokenPositions& positions,
                                            std::int64_t tokens, std::int64_t max_length,
                                            const at::Tensor& like) {
  const HeadLayout& layout = torch::find_rope(rope)->rope().layout();
  if (layout.pairing != Pairing::kInterleaved || positions.positions) return std::nullopt;
  const at::NoGradGuard no_grad;
  // The rotation takes pairs (1, 0) to (cos, sin).
  const auto floats = like.options().dtype(at::kFloat);
  const at::Tensor cos_sin = at::zeros({1, max_length, 1, layout.head_dim}, floats);
  cos_sin.view({-1, 2}).select(1, 0).fill_(1);
  torch::rotate_(cos_sin, rope, {.first = positions.first});
  RotationTable table{.cos_sin = cos_sin.view({max_length, layout.head_dim})};
  if (positions.cu_seqlens) table.rows = token_positions(positions, tokens, like);
  return table;
}

std::vector<at::Tensor> split_heads_(const at::Tensor& product, const SplitHeadsOptions& options) {
  TORCH_CHECK_VALUE(options.num_projections >= 1 && options.num_rotated >= 0 &&
                        options.num_rotated <= options.num_projections,
                    "[split_heads] num_rotated must be from 0 to num_projections, ",
                    options.num_projections, ", got ", options.num_rotated);
  TORCH_CHECK_VALUE(product.dim() == 3 && product.is_contiguous() && options.heads > 0 &&
                        product.size(2) % (options.num_projections * options.heads) == 0,
                    "[split_heads] product must be [batch, tokens, ", options.num_projections, " ",
                    options.heads, " head_dim] and contiguous, got ", product.sizes());
  TORCH_CHECK_VALUE(
      !options.bias || (options.bias->dim() == 1 && options.bias->size(0) == product.size(2) &&
                        options.bias->scalar_type() == at::kFloat),
      "[split_heads] bias must be [", product.size(2), "] of float32");
  return SplitHeads::apply(product, options.bias, options);
}

}  // namespace rotary::transformer
