// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

/// RoFormer on LibTorch: the encoder (or causal decoder) and the heads of its tasks.
///
///   namespace rf = rotary::roformer;
///   rf::Model model = rf::make_model(config);
///   rf::Output y = model->forward({.ids = ids, .mask = mask, .labels = labels});
///   y.loss.backward();
///
/// Parameters have Hugging Face's names: "roformer.encoder.layer.0.attention.self.query.weight".
/// Rotation is that of rotary::torch, attention that of rotary::transformer. Throws c10::ValueError
/// for inputs that do not fit.
#pragma once

#include <ATen/core/Tensor.h>
#include <torch/nn/module.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "roformer/model/config.h"
#include "rotary/transformer/attention.h"
#include "rotary/transformer/linear_attention.h"

namespace rotary::roformer {

class DenseImpl;
class EmbeddingsImpl;
class EncoderImpl;
class ParameterStore;
struct ForwardContext;
struct Parameter;

/// Keys and values, or the linear-attention states, of the tokens so far: for inference with a
/// causal model.
struct Cache {
  struct Layer {
    transformer::KeyValueCache softmax{};
    transformer::LinearState linear{};
    /// With position_steps: of the last token, [batch] or [batch, heads].
    at::Tensor position{};
  };
  std::vector<Layer> layers{};
  std::int64_t tokens = 0;
};

/// Labels of kCausalLm.
enum class CausalLabels : std::uint8_t {
  kSameToken,  // the ids themselves, each predicted by the token before it, as in transformers
  kNextToken,  // already shifted: the id that each token predicts, as in batches of roformer/data
};
/// Tokens for which the language models compute logits.
enum class LogitsAt : std::uint8_t {
  kAllTokens,
  kLabels,  // [labelled tokens, vocab_size], where a label is not kIgnored. The last layer computes
            // no other outputs. Gradients flow through the loss alone
};
inline constexpr std::int64_t kIgnored = -100;

struct Inputs {
  /// [batch, tokens], int64.
  at::Tensor ids{};
  /// [batch, tokens], int64; 0 where absent.
  std::optional<at::Tensor> types{};
  /// [batch, tokens], with a cache [batch, cached tokens + tokens]: 0 or false for padding.
  std::optional<at::Tensor> mask{};
  /// Packed sequences: the offset of each in the concatenated rows, then batch * tokens. Attention
  /// stays within a sequence; positions begin at 0 in each.
  std::optional<at::Tensor> cu_seqlens{};
  std::optional<std::int64_t> max_seqlen{};
  /// int64, kIgnored for none. Language models, kTokenClassification: [batch, tokens];
  /// kQuestionAnswering: [batch, 2], first and last token; the others: [batch], or real numbers
  /// [batch, num_labels].
  std::optional<at::Tensor> labels{};
  CausalLabels causal_labels = CausalLabels::kSameToken;
  LogitsAt logits_at = LogitsAt::kAllTokens;
  /// For kLabels, optional: the indices of the labels that are not kIgnored in the concatenated
  /// rows, [labelled tokens], int64, ascending. Saves a synchronisation with the device.
  std::optional<at::Tensor> label_indices{};
  /// The tokens continue those in it, and are appended.
  Cache* cache = nullptr;
};

struct Output {
  /// Mean over labels; undefined without labels.
  at::Tensor loss{};
  /// [batch, tokens, vocab_size | num_labels | 2], or [batch, num_labels]; undefined for kEncoder.
  at::Tensor logits{};
  /// [batch, tokens, hidden_size]; with LogitsAt::kLabels [labelled tokens, hidden_size].
  at::Tensor hidden{};
};

/// Embeddings and layers: "embeddings", "embeddings_project", "encoder".
class RoFormerImpl : public ::torch::nn::Module {
 public:
  explicit RoFormerImpl(const Config& config);

  /// [batch, tokens, hidden_size]; labels are ignored.
  at::Tensor forward(const Inputs& inputs);
  /// [selected, hidden_size]: forward() at some tokens, indices into the concatenated rows, int64,
  /// ascending. Where possible, the last layer computes keys and values of all tokens, and the rest
  /// for these alone.
  at::Tensor forward_at(const at::Tensor& tokens, const Inputs& inputs);
  /// [vocab_size, embedding_size]
  const at::Tensor& word_embeddings() const;
  Parameter indexed_word_embeddings() const;
  void set_compute_type(at::ScalarType type) { compute_type_ = type; }
  void set_checkpointing(bool on);
  void set_deterministic(bool on) noexcept { deterministic_ = on; }
  void set_store(std::shared_ptr<ParameterStore> store) { store_ = std::move(store); }
  const std::shared_ptr<ParameterStore>& store() const noexcept { return store_; }
  /// The attention kernel of the last forward(), in its first layer: "rotary", "flash", "cudnn",
  /// "efficient", "math" or "linear".
  const std::string& attention_backend() const noexcept { return backend_; }
  /// With rope_learn, of each layer: as learned, [pairs, axes] or [heads, pairs, axes], and as the
  /// rope has them, [pairs, axes]; float64.
  struct LayerFrequencies {
    at::Tensor learned{};
    at::Tensor base{};
  };
  std::vector<LayerFrequencies> learned_frequencies() const;

 private:
  /// Fused operations are for mixed precision, and for float32 on a GPU.
  void choose_ops(const Inputs& inputs, ForwardContext& context) const;
  ForwardContext make_context(const Inputs& inputs) const;
  /// [batch, tokens, hidden_size], packed rows as one; or, with `tokens`, [selected, hidden_size].
  at::Tensor encode(const Inputs& inputs, const at::Tensor* tokens);

  Config config_;
  std::shared_ptr<EmbeddingsImpl> embeddings_;
  std::shared_ptr<DenseImpl> project_;
  std::shared_ptr<EncoderImpl> encoder_;
  std::optional<at::ScalarType> compute_type_;
  bool deterministic_ = true;
  std::shared_ptr<ParameterStore> store_;
  std::string backend_;
};

/// "roformer", and the head of a task. Weights are initialised from a normal distribution of
/// standard deviation config.initializer_range, by PyTorch's default generator.
class ModelImpl : public ::torch::nn::Module {
 public:
  virtual Output forward(const Inputs& inputs) = 0;

  const Config& config() const noexcept { return config_; }
  const RoFormerImpl& roformer() const noexcept { return *roformer_; }
  RoFormerImpl& roformer() noexcept { return *roformer_; }
  /// Mixed precision: layers, `hidden` and the logits of language models are computed in this
  /// type, at::kBFloat16 for one. Parameters and their gradients, embeddings, norms, the loss and
  /// the logits of other tasks keep the parameters' type. bfloat16 on an AArch64 CPU without
  /// instructions for it turns PyTorch's oneDNN off (onednn.h).
  void set_compute_type(at::ScalarType type);
  /// Activation checkpointing: each layer saves only its input and is recomputed in the backward
  /// pass. Less memory, a third more work, the same results.
  void set_checkpointing(bool on) { roformer_->set_checkpointing(on); }

  /// Gradients with the same bits in every run on the same GPU, as far as
  /// transformer::AttendOptions::deterministic promises; on by default.
  void set_deterministic(bool on) noexcept { roformer_->set_deterministic(on); }

  /// Moves the parameters that require a gradient into flat buffers, for training
  /// (parameter_store.h). The model owns the store and uses its low-precision weights; a store from
  /// an earlier call is replaced. Throws std::invalid_argument as ParameterStore does.
  std::shared_ptr<ParameterStore> make_store(std::int64_t ranks = 1);
  /// The parameters keep their values.
  void drop_store() { roformer_->set_store(nullptr); }

 protected:
  explicit ModelImpl(const Config& config);
  /// Last call of a constructor.
  void initialize();

 private:
  Config config_;
  std::shared_ptr<RoFormerImpl> roformer_;
};
using Model = std::shared_ptr<ModelImpl>;

/// The model of config.task. Throws std::invalid_argument as check_config() does.
Model make_model(const Config& config);

/// [batch, hidden_size]: the mean over tokens other than padding.
at::Tensor mean_pool(const at::Tensor& hidden, const std::optional<at::Tensor>& mask);

}  // namespace rotary::roformer
