// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

#include "roformer/model/layers.h"

#include <ATen/Functions.h>

#include <cmath>
#include <tuple>
#include <utility>

#include "roformer/model/attention_trace.h"
#include "roformer/model/recompute.h"

namespace rotary::roformer {
namespace {

/// A module without parameters of its own, for the names of those below it.
std::shared_ptr<::torch::nn::Module> add_group(::torch::nn::Module& parent, const char* name) {
  return parent.register_module(name, std::make_shared<::torch::nn::Module>());
}

std::shared_ptr<transformer::EncodingImpl> encoding_of(const Config& config,
                                                       const Rotation& rotation) {
  return transformer::make_encoding(
      {.name = split_encoding(config.position_encoding).shared,
       .model_dim = config.embedding_dim(),
       .max_positions = config.max_position_embeddings,
       .heads = config.num_attention_heads,
       .causal = config.causal(),
       .rope = rotation.fixed()->empty() ? std::string() : rotation.fixed()->front().text});
}

/// The layer's own part of the encoding; null without one.
std::shared_ptr<transformer::EncodingImpl> layer_encoding_of(const Config& config) {
  // Where distances are clipped: as in both papers.
  constexpr std::int64_t kShawDistance = 16;
  constexpr std::int64_t kNezhaDistance = 64;
  const std::string name = split_encoding(config.position_encoding).of_layers;
  if (name.empty()) return nullptr;
  return transformer::make_encoding(
      {.name = name,
       .model_dim = config.hidden_size,
       .heads = config.num_attention_heads,
       .max_distance = name == "shaw" ? kShawDistance : kNezhaDistance,
       .causal = config.causal()});
}

at::Tensor heads_first(const at::Tensor& x) { return x.transpose(1, 2); }

/// softmax(scale q k^T + bias): what attention makes of an identity matrix of values.
at::Tensor attention_weights(const Heads& heads, transformer::EncodingImpl* relative,
                             transformer::AttendOptions options) {
  const at::Tensor queries = heads_first(heads.q);
  const at::Tensor keys = heads_first(heads.k);
  if (relative != nullptr) transformer::add_content(*relative, queries, keys, options);
  options.value_vectors.reset();
  const at::Tensor identity = at::eye(keys.size(2), keys.options());
  return transformer::attend(
      queries, keys, identity.expand({keys.size(0), keys.size(1), -1, -1}).contiguous(), options);
}

}  // namespace

// ---- Embeddings ---------------------------------------------------------------------------------

EmbeddingsImpl::EmbeddingsImpl(const Config& config)
    : ::torch::nn::Module("Embeddings"),
      dropout_(config.hidden_dropout_prob),
      dropout_before_norm_(config.dropout_before_norm),
      scale_(config.scale_embedding ? std::sqrt(static_cast<double>(config.embedding_dim()))
                                    : 1.0) {
  const std::int64_t size = config.embedding_dim();
  words_ = register_module("word_embeddings",
                           std::make_shared<EmbeddingTableImpl>(config.vocab_size, size));
  types_ = register_module("token_type_embeddings", std::make_shared<::torch::nn::EmbeddingImpl>(
                                                        config.type_vocab_size, size));
  words_->options.padding_idx(config.pad_token_id);
  norm_ = register_module("LayerNorm", std::make_shared<NormImpl>(size, config));
}

HiddenStates EmbeddingsImpl::forward(const Inputs& inputs, transformer::EncodingImpl& encoding,
                                     const ForwardContext& context) {
  const bool encodes_input = encoding.targets().input;
  // Fused operations scale nothing, add no encoding and drop after the norm only.
  const bool plain = encodes_input || dropout_before_norm_ || scale_ != 1.0;
  const LayerOps& ops = plain ? plain_ops() : *context.ops;
  auto [x, bias] = ops.embed(*words_, *types_, inputs, context);
  if (scale_ != 1.0) x = x.mul(scale_);
  const torch::TokenPositions& positions = context.positions;
  if (positions.cu_seqlens) x = x.flatten(0, 1).unsqueeze(0);
  if (encodes_input) {
    // Explicit positions for packed sequences: encodings of the input do not take cu_seqlens.
    x = positions.cu_seqlens
            ? encoding.embed(
                  x, {.positions = transformer::token_positions(positions, x.sym_size(1), x)})
            : encoding.embed(x, positions);
  }
  return ops.embedding_norm(x, bias, *norm_,
                            {.p = dropout_,
                             .training = is_training(),
                             .before_norm = dropout_before_norm_,
                             .seed = context.seed(-1)});
}

// ---- Attention ----------------------------------------------------------------------------------

SelfAttentionImpl::SelfAttentionImpl(const Config& config, const LayerRope& rope)
    : ::torch::nn::Module("SelfAttention"),
      num_heads_(config.num_attention_heads),
      rotate_values_(config.rotary_value || config.rotary_output),
      rotate_outputs_(config.rotary_output && rope.index),
      dropout_(config.attention_probs_dropout_prob),
      rope_(rope.index) {
  const std::int64_t size = config.hidden_size;
  query_ = register_module("query", make_dense(size, size, config));
  key_ = register_module("key", make_dense(size, size, config));
  value_ = register_module("value", make_dense(size, size, config));
  if (config.qk_norm != QkNorm::kNone) {
    const auto add_norm = [&](const char* name) {
      return register_module(name, std::make_shared<HeadNormImpl>(config.qk_norm, config.head_dim(),
                                                                  config.layer_norm_eps));
    };
    query_norm_ = add_norm("query_norm");
    key_norm_ = add_norm("key_norm");
  }
  if (rope.index) rotation_ = make_layer_rotation(config, rope.text);
  if (rotation_) register_module("rotation", rotation_);
  relative_ = layer_encoding_of(config);
  if (relative_) register_module("relative", relative_);
  if (config.attention_type == AttentionKind::kLinear) {
    linear_ = register_module("linear", std::make_shared<LinearAttentionImpl>(config, rope));
  }
}

HeadProjections SelfAttentionImpl::projections() const {
  const bool replaces = rotation_ && rotation_->replaces_encoding();
  return {.query = *query_,
          .key = *key_,
          .value = *value_,
          .num_heads = num_heads_,
          // Linear attention rotates by itself.
          .rope = !linear_ && !replaces ? rope_ : std::nullopt,
          .rotate_values = rotate_values_,
          .query_norm = query_norm_.get(),
          .key_norm = key_norm_.get()};
}

at::Tensor SelfAttentionImpl::softmax(const Heads& heads, const ForwardContext& context,
                                      Cache::Layer* cache) {
  at::Tensor keys = heads_first(heads.k);
  at::Tensor values = heads_first(heads.v);
  if (cache != nullptr) std::tie(keys, values) = cache->softmax.append(keys, values);
  transformer::AttendOptions options = context.attend;
  options.dropout = is_training() ? dropout_ : 0.0;
  const at::Tensor queries = heads_first(heads.q);
  if (relative_) transformer::add_content(*relative_, queries, keys, options);
  return transformer::attend(queries, keys, values, options);
}

at::Tensor SelfAttentionImpl::forward(const at::Tensor& x, const at::Tensor& queries,
                                      const std::vector<at::Tensor>& weights,
                                      transformer::EncodingImpl& encoding,
                                      const ForwardContext& context, Cache::Layer* cache) {
  Heads heads = context.ops->project_heads(x, queries, weights, projections(), encoding, context);
  LayerPositions positions;
  if (rotation_) positions = rotation_->positions(x, context, cache);
  if (rotation_ && rotation_->replaces_encoding()) {
    heads = rotation_->rotate(heads, positions, rotate_values_);
  }
  AttentionTrace* trace = AttentionTrace::current();
  if (trace != nullptr && !linear_ && cache == nullptr) {
    HeadProjections unrotated = projections();
    unrotated.rope.reset();
    const Heads plain =
        context.ops->project_heads(x, queries, weights, unrotated, encoding, context);
    trace->add({attention_weights(heads, relative_.get(), context.attend),
                attention_weights(plain, relative_.get(), context.attend)});
  }
  at::Tensor y = linear_ ? linear_->forward(heads, context, cache) : softmax(heads, context, cache);
  if (rotate_outputs_) y = rotation_->unrotate(y, positions);
  return y.transpose(1, 2).flatten(2);
}

// ---- Layers -------------------------------------------------------------------------------------

ResidualImpl::ResidualImpl(std::int64_t from, const Config& config)
    : ::torch::nn::Module("Residual"), dropout_(config.hidden_dropout_prob) {
  dense_ = register_module("dense", make_dense(from, config.hidden_size, config));
  norm_ = register_module("LayerNorm", std::make_shared<NormImpl>(config.hidden_size, config));
}

LayerImpl::LayerImpl(const Config& config, const LayerRope& rope)
    : ::torch::nn::Module("Layer"), number_(rope.layer), activation_(config.hidden_act) {
  const auto attention = add_group(*this, "attention");
  self_ = attention->register_module("self", std::make_shared<SelfAttentionImpl>(config, rope));
  attention_output_ = attention->register_module(
      "output", std::make_shared<ResidualImpl>(config.hidden_size, config));
  intermediate_ = add_group(*this, "intermediate")
                      ->register_module("dense", make_dense(config.hidden_size,
                                                            config.intermediate_size, config));
  output_ =
      register_module("output", std::make_shared<ResidualImpl>(config.intermediate_size, config));
}

HiddenStates LayerImpl::forward(const HiddenStates& x, transformer::EncodingImpl& encoding,
                                const ForwardContext& context, Cache::Layer* cache) {
  const LayerOps& ops = *context.ops;
  const ResidualParams attention_output = attention_output_->params();
  const ResidualParams output = output_->params();
  const LayerWeights weights = ops.load_weights({.heads = self_->projections(),
                                                 .attention_output = attention_output.dense,
                                                 .inner = *intermediate_,
                                                 .outer = output.dense},
                                                x.hidden.scalar_type(), context);
  const at::Tensor queries =
      context.selected ? x.residual.index_select(1, *context.selected) : x.residual;
  const at::Tensor attended =
      self_->forward(x.hidden, queries, weights.heads, encoding, context, cache);
  const HiddenStates y =
      ops.dense_add_norm(attended, weights.attention_output, queries, attention_output,
                         attention_output_->dropout(context.seed(2 * number_)));
  return ops.feed_forward_add_norm(y, weights, *intermediate_, activation_, output,
                                   output_->dropout(context.seed(2 * number_ + 1)));
}

EncoderImpl::EncoderImpl(const Config& config)
    : ::torch::nn::Module("Encoder"), rotation_(config), encoding_(encoding_of(config, rotation_)) {
  register_module("encoding", encoding_);
  const std::vector<PassRope>& ropes = *rotation_.fixed();
  for (std::size_t i = 0; ropes.size() > 1 && i < ropes.size(); ++i) {
    rotations_.push_back(transformer::rope(ropes[i].text));
  }
  const auto group = add_group(*this, "layer");
  for (std::int64_t i = 0; i < config.num_hidden_layers; ++i) {
    const std::optional<std::size_t> rope =
        ropes.empty() ? std::nullopt : rotation_.layers().of_layer[static_cast<std::size_t>(i)];
    const LayerRope own{
        .layer = i, .index = rope, .text = rope ? ropes[*rope].text : std::string()};
    layers_.push_back(
        group->register_module(std::to_string(i), std::make_shared<LayerImpl>(config, own)));
  }
}

transformer::EncodingImpl& EncoderImpl::encoding_of_layer(std::size_t layer) {
  if (rotations_.empty()) return *encoding_;
  return *rotations_[rotation_.layers().of_layer[layer].value_or(0)];
}

std::vector<const torch::RotaryEmbeddingImpl*> EncoderImpl::learned_rotations() const {
  std::vector<const torch::RotaryEmbeddingImpl*> all;
  for (const auto& layer : layers_) {
    const LayerRotationImpl* rotation = layer->rotation();
    if (rotation != nullptr && rotation->frequencies() != nullptr) {
      all.push_back(rotation->frequencies());
    }
  }
  return all;
}

/// The bias of the scores is an input, too: it is computed before the layers, which share it.
HiddenStates EncoderImpl::checkpointed(std::size_t layer, const HiddenStates& x,
                                       const ForwardContext& context) {
  const bool two = !x.is_same();
  std::vector<at::Tensor> inputs = {x.hidden};
  if (two) inputs.push_back(x.residual);
  if (context.attend.bias) inputs.push_back(*context.attend.bias);
  const auto compute = [this, layer, context, two](const std::vector<at::Tensor>& in) {
    ForwardContext own = context;
    if (own.attend.bias) own.attend.bias = in.back();
    const HiddenStates y =
        layers_[layer]->forward({in[0], in[two ? 1 : 0]}, encoding_of_layer(layer), own, nullptr);
    return y.is_same() ? std::vector{y.hidden} : std::vector{y.hidden, y.residual};
  };
  const std::vector<at::Tensor> y = recomputed(compute, inputs, layers_[layer]->parameters());
  return {y.front(), y.back()};
}

at::Tensor EncoderImpl::forward(HiddenStates x, const ForwardContext& context, Cache* cache,
                                const ForwardContext* last) {
  const bool recomputes = checkpointing_ && at::GradMode::is_enabled() && cache == nullptr;
  for (std::size_t i = 0; i < layers_.size(); ++i) {
    const bool selects = last != nullptr && i + 1 == layers_.size();
    if (selects) {
      const auto one_row = [](const at::Tensor& y) { return y.flatten(0, 1).unsqueeze(0); };
      const bool same = x.is_same();
      x.hidden = one_row(x.hidden);
      x.residual = same ? x.hidden : one_row(x.residual);
    }
    const ForwardContext& own = selects ? *last : context;
    x = recomputes ? checkpointed(i, x, own)
                   : layers_[i]->forward(x, encoding_of_layer(i), own,
                                         cache == nullptr ? nullptr : &cache->layers[i]);
    if (i == 0) backend_ = transformer::last_attention_backend();
  }
  return x.hidden;
}

}  // namespace rotary::roformer
