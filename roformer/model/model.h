// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

/// RoFormer on LibTorch: the encoder (or causal decoder) and what stands on it.
///
///   namespace rf = rotary::roformer;
///   rf::Model model = rf::make_model(config);
///   rf::Output y = model->forward({.ids = ids, .mask = mask, .labels = labels});
///   y.loss.backward();
///
/// Parameters have Hugging Face's names: "roformer.encoder.layer.0.attention.self.query.weight".
/// Rotation and attention are rotary::torch's. c10::ValueError says what does not fit.
#pragma once

#include <ATen/core/Tensor.h>
#include <torch/nn/module.h>
#include <torch/nn/modules/linear.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "roformer/model/config.h"
#include "rotary/torch_attention.h"
#include "rotary/torch_linear_attention.h"

namespace rotary::roformer {

class EmbeddingsImpl;
class EncoderImpl;
class NarrowWeights;
struct Pass;

/// What the layers remember of the tokens so far, for a causal model in inference.
struct Cache {
  struct Layer {
    torch::KeyValueCache softmax{};
    torch::LinearState linear{};
  };
  std::vector<Layer> layers{};
  std::int64_t tokens = 0;
};

/// What the labels of kCausalLm are.
enum class CausalLabels : std::uint8_t {
  kSameToken,  // the ids themselves, compared with what the token before says, as in transformers
  kNextToken,  // what each token should say, as the batches of roformer/data have it
};
/// Where the logits of the language models are computed.
enum class LogitsAt : std::uint8_t {
  kAllTokens,
  kLabels,  // [labelled tokens, vocab_size]: where a label is not kIgnored; spares the rest, and
            // what of the last layer nobody reads. Gradients go by the loss alone
};
inline constexpr std::int64_t kIgnored = -100;

struct Inputs {
  /// [batch, tokens], int64.
  at::Tensor ids{};
  /// [batch, tokens], int64; 0 where absent.
  std::optional<at::Tensor> types{};
  /// [batch, tokens], with a cache those in it too: 0 or false where there is padding.
  std::optional<at::Tensor> mask{};
  /// Several sequences in a row: where each begins in the rows laid end to end, and batch * tokens
  /// at last. Each is for itself; positions begin at 0 in each.
  std::optional<at::Tensor> cu_seqlens{};
  std::optional<std::int64_t> max_seqlen{};
  /// int64, kIgnored where there is none. Language models, kTokenClassification: [batch, tokens];
  /// kQuestionAnswering: [batch, 2], first and last token; the others: [batch], or real numbers
  /// [batch, num_labels].
  std::optional<at::Tensor> labels{};
  CausalLabels causal_labels = CausalLabels::kSameToken;
  LogitsAt logits_at = LogitsAt::kAllTokens;
  /// For kLabels, where they are known: the places of the labels that are not kIgnored in the rows
  /// laid end to end, [labelled tokens], int64, rising. Spares the wait for a device that counts
  /// them.
  std::optional<at::Tensor> label_places{};
  /// The tokens follow those in it.
  Cache* cache = nullptr;
};

struct Output {
  /// The mean over labels; undefined without labels.
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

  /// [batch, tokens, hidden_size]; labels are not looked at.
  at::Tensor forward(const Inputs& inputs);
  /// [places, hidden_size]: forward() at some places of the rows laid end to end, int64, rising.
  /// Where it can be, the last layer computes keys and values of all tokens and the rest for these
  /// alone.
  at::Tensor forward_at(const at::Tensor& places, const Inputs& inputs);
  /// [vocab_size, embedding_size]
  const at::Tensor& word_embeddings() const;
  void set_compute_type(at::ScalarType type) { compute_type_ = type; }
  void set_checkpointing(bool on);
  /// What a trainer keeps of the parameters (mixed.h), or null.
  void set_narrow_weights(std::shared_ptr<NarrowWeights> kept) { kept_ = std::move(kept); }
  const std::shared_ptr<NarrowWeights>& narrow_weights() const noexcept { return kept_; }
  /// The kernel of the last forward(), in all layers but one whose output is read in part:
  /// "rotary", "flash", "cudnn", "efficient", "math" or "linear".
  const std::string& attention_backend() const noexcept { return backend_; }

 private:
  void choose_layers(const Inputs& inputs, Pass& pass) const;
  /// [batch, tokens, hidden_size], packed rows as one; or, with places, [places, hidden_size].
  at::Tensor encode(const Inputs& inputs, const at::Tensor* places);

  Config config_;
  std::shared_ptr<EmbeddingsImpl> embeddings_;
  ::torch::nn::Linear project_{nullptr};
  std::shared_ptr<EncoderImpl> encoder_;
  std::optional<at::ScalarType> compute_type_;
  std::shared_ptr<NarrowWeights> kept_;
  std::string backend_;
};

/// "roformer", and the layers of a task. Weights begin as config.initializer_range says; draws come
/// from PyTorch's default generator.
class ModelImpl : public ::torch::nn::Module {
 public:
  virtual Output forward(const Inputs& inputs) = 0;

  const Config& config() const noexcept { return config_; }
  RoFormerImpl& roformer() noexcept { return *roformer_; }
  /// What layers and logits of language models are computed in, at::kBFloat16 say: mixed
  /// precision. Parameters and their gradients, embeddings, norms, the loss and the logits of
  /// other tasks keep the parameters' type; `hidden` has this one.
  void set_compute_type(at::ScalarType type);
  /// Whether each layer keeps its input alone and is computed again on the way back: less memory,
  /// a third more work, the same numbers.
  void set_checkpointing(bool on) { roformer_->set_checkpointing(on); }

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

/// [batch, hidden_size]: the mean over the tokens that are no padding.
at::Tensor mean_pool(const at::Tensor& hidden, const std::optional<at::Tensor>& mask);

}  // namespace rotary::roformer
