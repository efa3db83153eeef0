// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// The parts of the encoder, each named as Hugging Face names it. Post-LN, as BERT:
//
//   x = LN(x + dense(attend(turn(query(x)), turn(key(x)), value(x))))
//   x = LN(x + dense(act(dense(x))))
#pragma once

#include <ATen/core/Tensor.h>
#include <torch/nn/module.h>
#include <torch/nn/modules/embedding.h>
#include <torch/nn/modules/linear.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "roformer/model/config.h"
#include "roformer/model/mixed.h"
#include "roformer/model/model.h"
#include "rotary/torch_encodings.h"
#include "rotary/torch_layers.h"

namespace rotary::roformer {

at::Tensor activate(const at::Tensor& x, Activation activation);
::torch::nn::Linear make_linear(std::int64_t from, std::int64_t to, const Config& config);
/// The layer in the type of x, whatever that of its parameters.
at::Tensor dense(const ::torch::nn::Linear& layer, const at::Tensor& x,
                 const std::shared_ptr<NarrowWeights>& kept = {});

/// Layer norm with weight and bias, or RMS norm without either, in float32 for narrower types.
class NormImpl : public ::torch::nn::Module {
 public:
  NormImpl(std::int64_t size, const Config& config);
  at::Tensor forward(const at::Tensor& x) const;
  /// What add_norm() needs of a layer norm.
  torch::AddNormOptions options() const { return {.weight = weight_, .shift = bias_, .eps = eps_}; }

 private:
  NormType type_;
  std::int64_t size_;
  double eps_;
  at::Tensor weight_;
  at::Tensor bias_;
};

/// What every layer of a pass is told.
struct Pass {
  /// Where tokens stand.
  torch::Where where{};
  /// Softmax attention; the encoding's bias is in it.
  torch::AttendOptions attend{};
  bool causal = false;
  /// By the operators of torch_layers.h, with dropout as these say, two for a layer and one for
  /// the embeddings, where there is any.
  bool fused = false;
  std::optional<at::Tensor> seeds{};
  /// Where not all tokens are read of what a layer gives: which, [read], int64, rising, and where
  /// they stand. Keys and values are of all tokens, and these are in one row: see reading_only().
  std::optional<at::Tensor> read{};
  torch::Where read_where{};
  /// How far tokens are turned, for the way back; of all, and of those that are read.
  std::optional<torch::TurnTable> table{};
  std::optional<torch::TurnTable> read_table{};
  /// What a trainer keeps, or null.
  std::shared_ptr<NarrowWeights> kept{};
};

/// For the layers of a pass over x, [batch, tokens, hidden_size]; nothing where it is of no use.
std::optional<torch::TurnTable> table_of(const Config& config, const Pass& pass,
                                         const at::Tensor& x);

/// Whether a layer that is told `pass` may compute what is read at `places` alone.
bool can_read_some(const Config& config, const Pass& pass, const at::Tensor& x,
                   const at::Tensor& places);
/// `pass` for the layer whose output is read at `places` alone: of the tokens of x, [batch, tokens,
/// hidden_size], laid end to end.
Pass reading_only(const at::Tensor& places, const Pass& pass, const at::Tensor& x);

/// What runs from layer to layer, twice: see torch::add_norm().
using Twice = std::pair<at::Tensor, at::Tensor>;

/// Whether those operators can do what this model does between its products of matrices.
bool has_fused_layers(const Config& config);

/// "word_embeddings", "token_type_embeddings", "LayerNorm".
class EmbeddingsImpl : public ::torch::nn::Module {
 public:
  explicit EmbeddingsImpl(const Config& config);
  at::Tensor forward(const Inputs& inputs, torch::EncodingImpl& encoding,
                     const torch::Where& where);
  /// In another type, for both uses in the first layer; with an encoding that is not of the input.
  Twice forward_fused(const Inputs& inputs, at::ScalarType type, const Pass& pass);
  const at::Tensor& words() const { return words_->weight; }

 private:
  double dropout_;
  bool dropout_first_;
  ::torch::nn::Embedding words_{nullptr};
  ::torch::nn::Embedding types_{nullptr};
  std::shared_ptr<NormImpl> norm_;
};

/// "self": "query", "key", "value".
class SelfAttentionImpl : public ::torch::nn::Module {
 public:
  explicit SelfAttentionImpl(const Config& config);
  /// [batch, tokens, hidden_size] to the same, or to what `asking` has of it: the tokens that are
  /// read.
  at::Tensor forward(const at::Tensor& x, const at::Tensor& asking, torch::EncodingImpl& encoding,
                     const Pass& pass, Cache::Layer* cache);
  /// The same by fused operators; `weights` are those of weights() in the type of x.
  at::Tensor forward_fused(const at::Tensor& x, const at::Tensor& asking, at::TensorList weights,
                           torch::EncodingImpl& encoding, const Pass& pass);
  /// In groups that make one product each.
  std::vector<std::vector<at::Tensor>> weights(const Pass& pass) const;

 private:
  /// Heads of x's product with `weight`; `turned` of those of `biases`, one each, turn.
  std::vector<at::Tensor> split_product(const at::Tensor& x, const at::Tensor& weight,
                                        const std::vector<at::Tensor>& biases, std::int64_t turned,
                                        const Pass& pass) const;
  at::Tensor softmax(at::Tensor q, at::Tensor k, at::Tensor v, torch::EncodingImpl& encoding,
                     const Pass& pass, Cache::Layer* cache);
  at::Tensor attend_turned(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                           const Pass& pass, Cache::Layer* cache);
  at::Tensor linear(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, const Pass& pass,
                    Cache::Layer* cache);

  std::int64_t heads_;
  AttentionKind kind_;
  bool turn_values_;
  double dropout_;
  std::string rope_;
  ::torch::nn::Linear query_{nullptr};
  ::torch::nn::Linear key_{nullptr};
  ::torch::nn::Linear value_{nullptr};
};

/// "dense" and "LayerNorm" over a sum with what went in before.
class ResidualImpl : public ::torch::nn::Module {
 public:
  ResidualImpl(std::int64_t from, const Config& config);
  at::Tensor forward(const at::Tensor& x, const at::Tensor& before);
  /// With the product of "dense" and x done, without its bias.
  Twice finish(const at::Tensor& product, const at::Tensor& before,
               const std::optional<at::Tensor>& seed);
  const at::Tensor& weight() const { return dense_->weight; }

 private:
  double dropout_;
  ::torch::nn::Linear dense_{nullptr};
  std::shared_ptr<NormImpl> norm_;
};

/// "attention": "self" and "output"; "intermediate": "dense"; "output".
class LayerImpl : public ::torch::nn::Module {
 public:
  LayerImpl(const Config& config, std::int64_t number);
  Twice forward(const Twice& x, torch::EncodingImpl& encoding, const Pass& pass,
                Cache::Layer* cache);

 private:
  Twice forward_fused(const Twice& x, torch::EncodingImpl& encoding, const Pass& pass);

  std::int64_t number_;
  Activation activation_;
  std::shared_ptr<SelfAttentionImpl> self_;
  std::shared_ptr<ResidualImpl> attention_output_;
  ::torch::nn::Linear intermediate_{nullptr};
  std::shared_ptr<ResidualImpl> output_;
};

/// "layer": one after the other. "encoding" where it has parameters; all layers share it.
class EncoderImpl : public ::torch::nn::Module {
 public:
  explicit EncoderImpl(const Config& config);
  /// [batch, tokens, hidden_size]; with `last`, as reading_only() gives it for the last layer,
  /// [1, read, hidden_size].
  at::Tensor forward(Twice x, const Pass& pass, Cache* cache, const Pass* last = nullptr);
  torch::EncodingImpl& encoding() noexcept { return *encoding_; }
  void set_checkpointing(bool on) noexcept { checkpointing_ = on; }
  /// The kernel of softmax attention in the first layer of the last forward().
  const std::string& backend() const noexcept { return backend_; }

 private:
  Twice recompute(LayerImpl& layer, const Twice& x, const Pass& pass);

  bool checkpointing_ = false;
  std::string backend_;
  std::shared_ptr<torch::EncodingImpl> encoding_;
  std::vector<std::shared_ptr<LayerImpl>> layers_;
};

}  // namespace rotary::roformer
