// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

/// Content-dependent positions: the model decides how far a token is from the one before it.
///
///   rotary::transformer::PositionSteps steps({.model_dim = 512});
///   at::Tensor positions = steps->forward(x);   // [batch, tokens], for rotary::torch::rotate()
///
/// The step of a token is softplus(w x + b), positive; positions are the running sum, 0 at the
/// first token. w begins at 0 and b such that all steps are 1: the ordinary positions.
/// Differentiable, as rotations are in their positions.
#pragma once

#include <ATen/core/Tensor.h>
#include <torch/nn/module.h>
#include <torch/nn/pimpl.h>

#include <cstdint>
#include <memory>
#include <optional>

namespace rotary::transformer {

struct PositionStepsOptions {
  std::int64_t model_dim = 0;
  /// 0: one step for all heads of a token.
  std::int64_t heads = 0;
};

/// Parameters weight [1 or heads, model_dim] and bias [1 or heads].
class PositionStepsImpl : public ::torch::nn::Module {
 public:
  /// Throws c10::ValueError unless model_dim is positive and heads not negative.
  explicit PositionStepsImpl(const PositionStepsOptions& options);

  /// Positions of x [batch, tokens, model_dim]: [batch, tokens], or [batch, heads, tokens];
  /// float64. `cu_seqlens`: sequences packed into the one row of x, each from 0. `last`, [batch] or
  /// [batch, heads]: the position of the token before the first one.
  at::Tensor forward(const at::Tensor& x,
                     const std::optional<at::Tensor>& cu_seqlens = std::nullopt,
                     const std::optional<at::Tensor>& last = std::nullopt);
  void reset_parameters();

 private:
  std::int64_t heads_;
  at::Tensor weight_;
  at::Tensor bias_;
};

class PositionSteps : public ::torch::nn::ModuleHolder<PositionStepsImpl> {
 public:
  using ::torch::nn::ModuleHolder<PositionStepsImpl>::ModuleHolder;
  explicit PositionSteps(const PositionStepsOptions& options)
      : ModuleHolder(std::make_shared<PositionStepsImpl>(options)) {}
};

}  // namespace rotary::transformer
