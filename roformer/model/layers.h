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
#include <vector>

#include "roformer/model/config.h"
#include "roformer/model/model.h"
#include "rotary/torch_encodings.h"

namespace rotary::roformer {

at::Tensor activate(const at::Tensor& x, Activation activation);
::torch::nn::Linear make_linear(std::int64_t from, std::int64_t to, const Config& config);
/// The layer in the type of x, whatever that of its parameters.
at::Tensor dense(const ::torch::nn::Linear& layer, const at::Tensor& x);

/// Layer norm with weight and bias, or RMS norm without either, in float32 for narrower types.
class NormImpl : public ::torch::nn::Module {
 public:
  NormImpl(std::int64_t size, const Config& config);
  at::Tensor forward(const at::Tensor& x) const;

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
};

/// "word_embeddings", "token_type_embeddings", "LayerNorm".
class EmbeddingsImpl : public ::torch::nn::Module {
 public:
  explicit EmbeddingsImpl(const Config& config);
  at::Tensor forward(const Inputs& inputs, torch::EncodingImpl& encoding,
                     const torch::Where& where);
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
  /// [batch, tokens, hidden_size] to the same.
  at::Tensor forward(const at::Tensor& x, torch::EncodingImpl& encoding, const Pass& pass,
                     Cache::Layer* cache);

 private:
  at::Tensor softmax(at::Tensor q, at::Tensor k, at::Tensor v, torch::EncodingImpl& encoding,
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

 private:
  double dropout_;
  ::torch::nn::Linear dense_{nullptr};
  std::shared_ptr<NormImpl> norm_;
};

/// "attention": "self" and "output"; "intermediate": "dense"; "output".
class LayerImpl : public ::torch::nn::Module {
 public:
  explicit LayerImpl(const Config& config);
  at::Tensor forward(const at::Tensor& x, torch::EncodingImpl& encoding, const Pass& pass,
                     Cache::Layer* cache);

 private:
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
  at::Tensor forward(at::Tensor x, const Pass& pass, Cache* cache);
  torch::EncodingImpl& encoding() noexcept { return *encoding_; }
  void set_checkpointing(bool on) noexcept { checkpointing_ = on; }

 private:
  at::Tensor recompute(LayerImpl& layer, const at::Tensor& x, const Pass& pass);

  bool checkpointing_ = false;
  std::shared_ptr<torch::EncodingImpl> encoding_;
  std::vector<std::shared_ptr<LayerImpl>> layers_;
};

}  // namespace rotary::roformer
