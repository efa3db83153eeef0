// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

#include "roformer/model/layer_rotation.h"

#include <ATen/Functions.h>

#include <stdexcept>
#include <utility>

#include "rotary/torch_rope.h"

namespace rotary::roformer {
namespace {

torch::Learn learn_of(RopeLearn learn) {
  switch (learn) {
    case RopeLearn::kNothing:
      return torch::Learn::kNothing;
    case RopeLearn::kGain:
      return torch::Learn::kLogGain;
    case RopeLearn::kFrequencies:
      return torch::Learn::kFrequencies;
    case RopeLearn::kPerHead:
      return torch::Learn::kPerHead;
    case RopeLearn::kReceptiveField:
      return torch::Learn::kReceptiveField;
  }
  return torch::Learn::kNothing;
}

}  // namespace

LayerRotationImpl::LayerRotationImpl(const Config& config, std::string rope)
    : ::torch::nn::Module("LayerRotation"), rope_(std::move(rope)) {
  if (config.rope_learn != RopeLearn::kNothing) {
    frequencies_ = register_module(
        "frequencies", std::make_shared<torch::RotaryEmbeddingImpl>(
                           torch::RotaryEmbeddingOptions{.rope = rope_,
                                                         .learn = learn_of(config.rope_learn),
                                                         .rho = config.rope_rho,
                                                         .heads = config.num_attention_heads}));
  }
  if (config.position_steps != PositionStepsOf::kNone) {
    const std::int64_t heads =
        config.position_steps == PositionStepsOf::kHead ? config.num_attention_heads : 0;
    steps_ = register_module(
        "steps", std::make_shared<transformer::PositionStepsImpl>(transformer::PositionStepsOptions{
                     .model_dim = config.hidden_size, .heads = heads}));
  }
}

LayerPositions LayerRotationImpl::positions(const at::Tensor& x, const ForwardContext& context,
                                            Cache::Layer* cache) {
  if (!steps_) {
    return {.queries = context.selected ? context.selected_positions : context.positions,
            .keys = context.positions,
            .shared = !context.selected};
  }
  const bool continues = cache != nullptr && cache->position.defined();
  const at::Tensor at = steps_->forward(x, context.positions.cu_seqlens,
                                        continues ? std::optional(cache->position) : std::nullopt);
  if (cache != nullptr) cache->position = at.select(-1, at.size(-1) - 1);
  LayerPositions positions{.shared = !context.selected};
  positions.keys.positions = at;
  positions.queries.positions = context.selected ? at.index_select(-1, *context.selected) : at;
  return positions;
}

/// Steps of each head give positions [batch, heads, tokens]; without steps, three dimensions are
/// those of several axes.
bool LayerRotationImpl::has_positions_per_head(const torch::TokenPositions& positions) const {
  return steps_ && positions.positions && positions.positions->dim() == 3;
}

/// Positions [batch, heads, tokens]: heads join the batch.
at::Tensor LayerRotationImpl::apply(bool forward, const at::Tensor& x,
                                    const torch::TokenPositions& positions) {
  if (!has_positions_per_head(positions)) return apply_all(forward, {x}, positions)[0];
  const bool tokens_first = positions.token_dim == -3;
  const at::Tensor heads_first = tokens_first ? x.transpose(1, 2) : x;
  torch::TokenPositions flat{.positions = positions.positions->flatten(0, 1), .token_dim = -2};
  const at::Tensor y = apply_all(forward, {heads_first.flatten(0, 1).unsqueeze(1)}, flat)[0].view(
      heads_first.sizes());
  return tokens_first ? y.transpose(1, 2) : y;
}

std::vector<at::Tensor> LayerRotationImpl::apply_all(bool forward, std::vector<at::Tensor> tensors,
                                                     const torch::TokenPositions& positions) {
  if (!frequencies_) {
    return forward ? torch::rotate(tensors, rope_, positions)
                   : torch::unrotate(tensors, rope_, positions);
  }
  return forward ? frequencies_->forward(tensors, positions)
                 : frequencies_->unrotate(tensors, positions);
}

Heads LayerRotationImpl::rotate(const Heads& heads, const LayerPositions& positions, bool values) {
  if (positions.shared && !has_positions_per_head(positions.keys)) {
    std::vector<at::Tensor> all = {heads.q, heads.k};
    if (values) all.push_back(heads.v);
    all = apply_all(true, std::move(all), positions.keys);
    return {.q = all[0], .k = all[1], .v = values ? all[2] : heads.v};
  }
  return {.q = apply(true, heads.q, positions.queries),
          .k = apply(true, heads.k, positions.keys),
          .v = values ? apply(true, heads.v, positions.keys) : heads.v};
}

at::Tensor LayerRotationImpl::unrotate(const at::Tensor& y, const LayerPositions& positions) {
  torch::TokenPositions at = positions.queries;
  at.token_dim = -2;
  return apply(false, y, at);
}

std::shared_ptr<LayerRotationImpl> make_layer_rotation(const Config& config,
                                                       const std::string& rope) {
  const bool plain = config.rope_learn == RopeLearn::kNothing &&
                     config.position_steps == PositionStepsOf::kNone && !config.rotary_output;
  if (plain) return nullptr;
  if (!torch::from_text(rope).frequencies.growth.empty()) {
    throw std::invalid_argument(
        "rope_learn, position_steps and rotary_output must not be set for a rope with growth");
  }
  return std::make_shared<LayerRotationImpl>(config, rope);
}

}  // namespace rotary::roformer
