// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

#include "roformer/model/linear_attention.h"

#include <ATen/Functions.h>

#include <string>
#include <utility>

namespace rotary::roformer {
namespace {

using transformer::FeatureMap;
using transformer::LinearVariant;

struct VariantAndMap {
  LinearVariant variant;
  FeatureMap feature_map;
};

VariantAndMap variant_of(const LinearConfig& config) {
  switch (config.kernel) {
    case LinearKernel::kElu:
      break;
    case LinearKernel::kRelu:
      return {LinearVariant::kNumerator, FeatureMap::kRelu};
    case LinearKernel::kCosine:
      return {LinearVariant::kCosine, FeatureMap::kElu};
    case LinearKernel::kRotated:
      return {LinearVariant::kRotated, FeatureMap::kElu};
    case LinearKernel::kFavor:
      return {config.favor_rotation == FavorRotation::kBefore ? LinearVariant::kBefore
                                                              : LinearVariant::kNumerator,
              FeatureMap::kFavor};
  }
  return {LinearVariant::kNumerator, FeatureMap::kElu};
}

/// The rope of a layer whose heads have this many elements: features rotated as a head would be.
std::string rope_of_width(Config config, std::int64_t layer, std::int64_t width) {
  config.hidden_size = width * config.num_attention_heads;
  return rope_text(config, layer);
}

}  // namespace

LinearAttentionImpl::LinearAttentionImpl(const Config& config, const LayerRope& rope)
    : ::torch::nn::Module("LinearAttention"), rope_(rope.index) {
  const LinearConfig& linear = config.linear;
  const auto [variant, feature_map] = variant_of(linear);
  options_.variant = variant;
  options_.feature_map = feature_map;
  options_.causal = config.causal();
  std::int64_t rotated_width = config.head_dim();
  if (feature_map == FeatureMap::kFavor) {
    const std::int64_t features = linear.favor_features != 0
                                      ? linear.favor_features
                                      : transformer::default_features(config.head_dim());
    projection_ = register_parameter("projection",
                                     transformer::orthogonal_features(features, config.head_dim()),
                                     /*requires_grad=*/false);
    if (variant == LinearVariant::kNumerator) rotated_width = features;
  }
  if (rope.index && rotated_width != config.head_dim()) {
    options_.rope = rope_of_width(config, rope.layer, rotated_width);
  }
  if (linear.decay == DecayKind::kNone) return;
  const at::Tensor slopes =
      linear.decay == DecayKind::kConstant
          ? at::full({config.num_attention_heads}, linear.decay_value, at::kFloat)
          : transformer::alibi_slopes(config.num_attention_heads, at::empty({0}));
  if (linear.decay == DecayKind::kLearned) {
    log_decay_ = register_parameter("log_decay", slopes.log());
  } else {
    decay_ = register_buffer("decay", slopes);
  }
}

at::Tensor LinearAttentionImpl::forward(const Heads& heads, const ForwardContext& context,
                                        Cache::Layer* cache) {
  const at::Tensor q = heads.q.transpose(1, 2);
  const at::Tensor k = heads.k.transpose(1, 2);
  const at::Tensor v = heads.v.transpose(1, 2);
  transformer::LinearAttendOptions options = options_;
  if (rope_ && options.rope.empty()) options.rope = (*context.ropes)[*rope_].text;
  options.padding = context.attend.padding;
  options.cu_seqlens = context.attend.cu_seqlens;
  if (projection_.defined()) options.projection = projection_;
  if (log_decay_.defined()) options.decay = log_decay_.exp();
  if (decay_.defined()) options.decay = decay_;
  if (cache == nullptr) return transformer::linear_attend(q, k, v, options);
  if (options.padding) {  // of these tokens alone: the state has those before
    options.padding = options.padding->narrow(1, cache->linear.tokens, q.size(2));
  }
  return transformer::linear_attend(q, k, v, cache->linear, std::move(options));
}

}  // namespace rotary::roformer
