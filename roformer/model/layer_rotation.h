// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// The rotation of one layer, where it is more than the model's rope: frequencies that the layer
// learns, positions that depend on the tokens, or outputs that are rotated back.
#pragma once

#include <ATen/core/Tensor.h>
#include <torch/nn/module.h>

#include <memory>
#include <string>
#include <vector>

#include "roformer/model/config.h"
#include "roformer/model/forward_context.h"
#include "roformer/model/layer_ops.h"
#include "roformer/model/model.h"
#include "rotary/torch.h"
#include "rotary/transformer/position_steps.h"

namespace rotary::roformer {

/// Positions of the queries and keys of a layer.
struct LayerPositions {
  torch::TokenPositions queries{};
  torch::TokenPositions keys{};
  /// Whether both are the same.
  bool shared = true;
};

/// "frequencies" where the layer learns them, "steps" where positions depend on the tokens.
class LayerRotationImpl : public ::torch::nn::Module {
 public:
  /// `rope` is the layer's rope as text.
  LayerRotationImpl(const Config& config, std::string rope);

  /// Whether rotate() takes the place of the model's encoding.
  bool replaces_encoding() const noexcept { return frequencies_ || steps_; }
  /// The learned frequencies; null where they are the rope's.
  torch::RotaryEmbeddingImpl* frequencies() const noexcept { return frequencies_.get(); }

  /// Positions for hidden states x, [batch, tokens, hidden_size]. `cache`: they continue the
  /// positions in it, which are updated; or null.
  LayerPositions positions(const at::Tensor& x, const ForwardContext& context, Cache::Layer* cache);
  /// Queries, keys and, if `values`, values rotated.
  Heads rotate(const Heads& heads, const LayerPositions& positions, bool values);
  /// [batch, heads, tokens, head_dim] rotated back by the positions of the queries.
  at::Tensor unrotate(const at::Tensor& y, const LayerPositions& positions);

 private:
  bool has_positions_per_head(const torch::TokenPositions& positions) const;
  at::Tensor apply(bool forward, const at::Tensor& x, const torch::TokenPositions& positions);
  std::vector<at::Tensor> apply_all(bool forward, std::vector<at::Tensor> tensors,
                                    const torch::TokenPositions& positions);

  std::string rope_;
  std::shared_ptr<torch::RotaryEmbeddingImpl> frequencies_;
  std::shared_ptr<transformer::PositionStepsImpl> steps_;
};

/// Null where the model's encoding is all that the layer needs. Throws std::invalid_argument for a
/// rope with growth.
std::shared_ptr<LayerRotationImpl> make_layer_rotation(const Config& config,
                                                       const std::string& rope);

}  // namespace rotary::roformer
