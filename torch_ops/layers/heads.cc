// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// Queries, keys and values of one product, turned where they lie; on the way back their gradients
// are turned into the place where the product's gradient is wanted.

#include <ATen/DeviceGuard.h>
#include <ATen/Functions.h>
#include <c10/util/SmallVector.h>
#include <torch/csrc/autograd/custom_function.h>

#include "layers/layers_cuda.h"
#include "operator.h"
#include "rotary/rope.h"
#include "rotary/torch.h"
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

/// PyTorch's copy of such rows reaches half the speed of memory.
void copy_heads(const at::Tensor& from, const at::Tensor& to) {
#ifdef ROTARY_TORCH_CUDA_KERNELS
  const std::int64_t bytes = to.size(2) * to.stride(2) * to.element_size();
  const auto is_of_rows = [bytes](const at::Tensor& x) {
    const std::int64_t step = x.stride(1) * x.element_size();
    return x.stride(3) == 1 && x.stride(2) == x.size(3) && x.stride(0) == x.size(1) * x.stride(1) &&
           bytes % 16 == 0 && step % 16 == 0 &&
           reinterpret_cast<std::uintptr_t>(x.const_data_ptr()) % 16 == 0;
  };
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

/// [batch, tokens, 3 heads head_dim] as three of [batch, tokens, heads, head_dim].
std::vector<at::Tensor> parts_of(const at::Tensor& qkv, std::int64_t heads) {
  const at::Tensor all = qkv.view({qkv.size(0), qkv.size(1), 3 * heads, -1});
  return {all.narrow(2, 0, heads), all.narrow(2, heads, heads), all.narrow(2, 2 * heads, heads)};
}

struct SplitHeads : ::torch::autograd::Function<SplitHeads> {
  static variable_list forward(AutogradContext* context, const at::Tensor& qkv,
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
    context->save_for_backward(
        {where.positions.value_or(at::Tensor()), where.cu_seqlens.value_or(at::Tensor())});
    if (options.turned > 0) {
      const at::Tensor all = qkv.view({qkv.size(0), qkv.size(1), 3 * options.heads, -1});
      rotate_(all.narrow(2, 0, options.turned * options.heads), options.rope, where);
    }
    return parts_of(qkv, options.heads);
  }

  static variable_list backward(AutogradContext* context, variable_list grads) {
    const std::int64_t heads = context->saved_data["heads"].toInt();
    const auto turned = static_cast<std::size_t>(context->saved_data["turned"].toInt());
    Where where{.first = context->saved_data["first"].toInt()};
    const variable_list saved = context->get_saved_variables();
    if (saved[0].defined()) where.positions = saved[0];
    if (saved[1].defined()) where.cu_seqlens = saved[1];
    const at::Tensor& one = grads[0];
    const at::Tensor dqkv =
        at::empty({one.size(0), one.size(1), 3 * heads * one.size(3)}, one.options());
    const std::vector<at::Tensor> parts = parts_of(dqkv, heads);
    if (turned > 0) {
      adjoint_into(at::TensorList(grads).slice(0, turned), at::TensorList(parts).slice(0, turned),
                   context->saved_data["rope"].toStringRef(), where);
    }
    for (std::size_t i = turned; i < parts.size(); ++i) copy_heads(grads[i], parts[i]);
    const bool has_bias = context->saved_data["bias"].toBool();
    return {dqkv, has_bias ? call_row_sums(dqkv) : at::Tensor(), at::Tensor()};
  }
};

}  // namespace

std::array<at::Tensor, 3> split_heads_(const at::Tensor& qkv, const SplitHeadsOptions& options) {
  TORCH_CHECK_VALUE(qkv.dim() == 3 && qkv.is_contiguous() && options.heads > 0 &&
                        qkv.size(2) % (3 * options.heads) == 0,
                    "[split_heads] qkv must be [batch, tokens, 3 ", options.heads,
                    " head_dim] without gaps, got ", qkv.sizes());
  TORCH_CHECK_VALUE(options.turned >= 0 && options.turned <= 3,
                    "[split_heads] turned must be 0 to 3, got ", options.turned);
  TORCH_CHECK_VALUE(
      !options.bias || (options.bias->dim() == 1 && options.bias->size(0) == qkv.size(2) &&
                        options.bias->scalar_type() == at::kFloat),
      "[split_heads] bias must be [", qkv.size(2), "] of float32");
  const variable_list parts = SplitHeads::apply(qkv, options.bias, options);
  return {parts[0], parts[1], parts[2]};
}

}  // namespace rotary::torch
