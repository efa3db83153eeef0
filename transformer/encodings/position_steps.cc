// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

#include "rotary/transformer/position_steps.h"

#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>

#include <algorithm>

namespace rotary::transformer {
namespace {

/// log(e - 1): softplus of it is 1.
constexpr double kStepOfOne = 0.54132485461291810;

}  // namespace

PositionStepsImpl::PositionStepsImpl(const PositionStepsOptions& options)
    : ::torch::nn::Module("PositionSteps"), heads_(options.heads) {
  TORCH_CHECK_VALUE(options.model_dim > 0 && options.heads >= 0,
                    "[PositionSteps] model_dim must be positive and heads not negative, got ",
                    options.model_dim, " and ", options.heads);
  const std::int64_t count = std::max<std::int64_t>(heads_, 1);
  weight_ = register_parameter("weight", at::zeros({count, options.model_dim}));
  bias_ = register_parameter("bias", at::full({count}, kStepOfOne));
}

void PositionStepsImpl::reset_parameters() {
  const at::NoGradGuard no_grad;
  weight_.zero_();
  bias_.fill_(kStepOfOne);
}

at::Tensor PositionStepsImpl::forward(const at::Tensor& x,
                                      const std::optional<at::Tensor>& cu_seqlens,
                                      const std::optional<at::Tensor>& last) {
  TORCH_CHECK_VALUE(x.dim() == 3, "[PositionSteps] x must be [batch, tokens, model_dim], got ",
                    x.sym_sizes());
  TORCH_CHECK_VALUE(!cu_seqlens || (x.sym_size(0) == 1 && !last),
                    "[PositionSteps] packed sequences are in one row, without a last position");
  const at::ScalarType type = at::promote_types(x.scalar_type(), at::kFloat);
  const at::Tensor steps =
      at::softplus(at::linear(x.to(type), weight_.to(type), bias_.to(type))).to(at::kDouble);
  at::Tensor positions = steps.cumsum(1);  // [batch, tokens, heads]
  if (last) {
    positions = positions + (heads_ == 0 ? last->unsqueeze(-1) : *last).unsqueeze(1);
  } else if (cu_seqlens) {
    const at::Tensor begins = cu_seqlens->to(at::kLong);
    const at::Tensor tokens = at::arange(x.sym_size(1), begins.options());
    const at::Tensor sequence =
        at::searchsorted(begins.slice(0, 1).contiguous(), tokens, /*out_int32=*/false,
                         /*right=*/true)
            .clamp_max(begins.size(0) - 2);
    positions = positions - positions.index_select(1, begins.index_select(0, sequence));
  } else if (x.sym_size(1) > 0) {
    positions = positions - positions.narrow(1, 0, 1);
  }
  return heads_ == 0 ? positions.squeeze(-1) : positions.transpose(1, 2);
}

}  // namespace rotary::transformer
