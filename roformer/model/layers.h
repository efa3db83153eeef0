// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// Layers of the encoder, with Hugging Face's names. Post-norm, as BERT:
//
//   x = norm(x + dense(attention(rotate(query(x)), rotate(key(x)), value(x))))
//   x = norm(x + dense(activation(dense(x))))
//
// Each is written once, over LayerOps: fused or plain operations.
#pragma once

#include <ATen/core/Tensor.h>
#include <torch/nn/module.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "roformer/model/config.h"
#include "roformer/model/forward_context.h"
#include "roformer/model/layer_ops.h"
#include "roformer/model/layer_rotation.h"
#include "roformer/model/linear_attention.h"
#include "roformer/model/model.h"
#include "roformer/model/modules.h"
#include "rotary/transformer/encodings.h"

namespace rotary::roformer {

/// "word_embeddings", "token_type_embeddings", "LayerNorm".
class EmbeddingsImpl : public ::torch::nn::Module {
 public:
  explicit EmbeddingsImpl(const Config& config);
  /// [batch, tokens, embedding_dim], packed sequences as one row; in the compute type where
  /// operations are fused.
  HiddenStates forward(const Inputs& inputs, transformer::EncodingImpl& encoding,
                       const ForwardContext& context);
  const at::Tensor& words() const { return words_->weight; }
  Parameter indexed_words() const { return words_->indexed_weight(); }

 private:
  double dropout_;
  bool dropout_before_norm_;
  /// Of the embeddings, before positions are added to them.
  double scale_;
  std::shared_ptr<EmbeddingTableImpl> words_;
  std::shared_ptr<::torch::nn::EmbeddingImpl> types_;
  std::shared_ptr<NormImpl> norm_;
};

/// "self": "query", "key", "value", "query_norm" and "key_norm" where the config has qk_norm,
/// "rotation" where the layer has its own, "relative" where the encoding is one of the content, and
/// "linear" (linear_attention.h).
class SelfAttentionImpl : public ::torch::nn::Module {
 public:
  SelfAttentionImpl(const Config& config, const LayerRope& rope);
  /// [batch, queries, hidden_size], for keys and values of x and queries of `queries`: x itself, or
  /// its selected tokens.
  at::Tensor forward(const at::Tensor& x, const at::Tensor& queries,
                     const std::vector<at::Tensor>& weights, transformer::EncodingImpl& encoding,
                     const ForwardContext& context, Cache::Layer* cache);
  HeadProjections projections() const;
  const LayerRotationImpl* rotation() const noexcept { return rotation_.get(); }

 private:
  at::Tensor softmax(const Heads& heads, const ForwardContext& context, Cache::Layer* cache);

  std::int64_t num_heads_;
  bool rotate_values_;
  bool rotate_outputs_;
  double dropout_;
  std::optional<std::size_t> rope_;
  std::shared_ptr<LayerRotationImpl> rotation_;
  Dense query_;
  Dense key_;
  Dense value_;
  std::shared_ptr<HeadNormImpl> query_norm_;
  std::shared_ptr<HeadNormImpl> key_norm_;
  std::shared_ptr<transformer::EncodingImpl> relative_;  // null: none
  std::shared_ptr<LinearAttentionImpl> linear_;          // null: softmax
};

/// "dense" and "LayerNorm" over the sum with a residual connection.
class ResidualImpl : public ::torch::nn::Module {
 public:
  ResidualImpl(std::int64_t from, const Config& config);
  ResidualParams params() const { return {.dense = *dense_, .norm = *norm_}; }
  Dropout dropout(std::optional<at::Tensor> seed) const {
    return {.p = dropout_, .training = is_training(), .seed = std::move(seed)};
  }

 private:
  double dropout_;
  Dense dense_;
  std::shared_ptr<NormImpl> norm_;
};

/// "attention": "self" and "output"; "intermediate": "dense"; "output".
class LayerImpl : public ::torch::nn::Module {
 public:
  LayerImpl(const Config& config, const LayerRope& rope);
  HiddenStates forward(const HiddenStates& x, transformer::EncodingImpl& encoding,
                       const ForwardContext& context, Cache::Layer* cache);
  const LayerRotationImpl* rotation() const noexcept { return self_->rotation(); }

 private:
  std::int64_t number_;
  Activation activation_;
  std::shared_ptr<SelfAttentionImpl> self_;
  std::shared_ptr<ResidualImpl> attention_output_;
  Dense intermediate_;
  std::shared_ptr<ResidualImpl> output_;
};

/// "layer": the layers in order. "encoding" where it has parameters; all layers share it, but for
/// the rotation.
class EncoderImpl : public ::torch::nn::Module {
 public:
  explicit EncoderImpl(const Config& config);
  /// [batch, tokens, hidden_size]; with `last`, the last layer's context from select_tokens(),
  /// [1, selected, hidden_size].
  at::Tensor forward(HiddenStates x, const ForwardContext& context, Cache* cache,
                     const ForwardContext* last = nullptr);
  transformer::EncodingImpl& encoding() noexcept { return *encoding_; }
  const Rotation& rotation() const noexcept { return rotation_; }
  void set_checkpointing(bool on) noexcept { checkpointing_ = on; }
  /// The layers' learned rotations; none without rope_learn.
  std::vector<const torch::RotaryEmbeddingImpl*> learned_rotations() const;
  /// The kernel of softmax attention in the first layer of the last forward().
  const std::string& backend() const noexcept { return backend_; }

 private:
  HiddenStates checkpointed(std::size_t layer, const HiddenStates& x,
                            const ForwardContext& context);
  /// Rotates queries and keys of a layer.
  transformer::EncodingImpl& encoding_of_layer(std::size_t layer);

  bool checkpointing_ = false;
  std::string backend_;
  Rotation rotation_;
  std::shared_ptr<transformer::EncodingImpl> encoding_;
  /// By the index of the rope, where there are several.
  std::vector<std::shared_ptr<transformer::EncodingImpl>> rotations_;
  std::vector<std::shared_ptr<LayerImpl>> layers_;
};

}  // namespace rotary::roformer
