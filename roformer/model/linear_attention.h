// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// Linear attention of a layer: what its config names, over rotary::transformer::linear_attend().
#pragma once

#include <ATen/core/Tensor.h>
#include <torch/nn/module.h>

#include <cstddef>
#include <optional>

#include "roformer/model/config.h"
#include "roformer/model/forward_context.h"
#include "roformer/model/layer_ops.h"
#include "roformer/model/model.h"
#include "roformer/model/rotation.h"
#include "rotary/transformer/linear_attention.h"

namespace rotary::roformer {

/// "linear", in checkpoints, where it has any: "projection" [features, head_dim], FAVOR+'s random
/// matrix, drawn with the weights and never again; "log_decay" [heads], learned.
class LinearAttentionImpl : public ::torch::nn::Module {
 public:
  LinearAttentionImpl(const Config& config, const LayerRope& rope);
  /// [batch, heads, tokens, head_dim] of projected heads, which it rotates itself.
  at::Tensor forward(const Heads& heads, const ForwardContext& context, Cache::Layer* cache);

 private:
  /// Without a rope where that of the forward pass is used.
  transformer::LinearAttendOptions options_;
  std::optional<std::size_t> rope_;
  at::Tensor projection_;  // no gradient
  at::Tensor log_decay_;
  at::Tensor decay_;  // a buffer
};

}  // namespace rotary::roformer
