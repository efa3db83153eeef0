// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// Heads: one class per task.
#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>

#include <tuple>
#include <utility>

#include "roformer/model/layers.h"
#include "roformer/model/model.h"

namespace rotary::roformer {
namespace {

void check_labels(const at::Tensor& labels, at::IntArrayRef sizes, std::string_view name) {
  TORCH_CHECK_VALUE(labels.sizes() == sizes && labels.scalar_type() == at::kLong, "[", name,
                    "] labels must be ", sizes, " of int64, got ", labels.sizes(), " of ",
                    labels.scalar_type());
}

at::Tensor cross_entropy(const at::Tensor& logits, const at::Tensor& labels,
                         std::int64_t ignored = kIgnored) {
  return at::cross_entropy_loss(logits.to(at::promote_types(logits.scalar_type(), at::kFloat)),
                                labels, {}, at::Reduction::Mean, ignored);
}

bool is_narrow(const at::Tensor& x) {
  return x.scalar_type() == at::kBFloat16 || x.scalar_type() == at::kHalf;
}

class EncoderOnlyImpl final : public ModelImpl {
 public:
  explicit EncoderOnlyImpl(const Config& config) : ModelImpl(config) { initialize(); }
  Output forward(const Inputs& in) override {
    TORCH_CHECK_VALUE(!in.labels, "[RoFormerModel] has no use for labels");
    return {.hidden = roformer().forward(in)};
  }
};

/// "predictions": transform.dense, transform.LayerNorm, bias, and decoder where it is not tied.
class PredictionsImpl final : public ::torch::nn::Module {
 public:
  explicit PredictionsImpl(const Config& config)
      : ::torch::nn::Module("Predictions"),
        activation_(config.hidden_act),
        supports_fused_ops_(supports_fused_ops(config)),
        num_classes_(config.vocab_size),
        dropout_(config.mlm_transform ? 0.0 : config.hidden_dropout_prob) {
    if (config.use_bias) bias_ = register_parameter("bias", at::zeros({config.vocab_size}));
    if (config.mlm_transform) {
      const auto transform = register_module("transform", std::make_shared<::torch::nn::Module>());
      dense_ = transform->register_module(
          "dense", make_dense(config.hidden_size, config.embedding_dim(), config));
      norm_ = transform->register_module(
          "LayerNorm", std::make_shared<NormImpl>(config.embedding_dim(), config));
    }
    if (!config.tie_word_embeddings) {
      decoder_ = register_module(
          "decoder",
          std::make_shared<DenseImpl>(
              ::torch::nn::LinearOptions(config.embedding_dim(), config.vocab_size).bias(false)));
    }
  }

  at::Tensor forward(const at::Tensor& hidden, const Parameter& words, const StorePtr& store) {
    return decode(transform(hidden, store), words, store, bias_);
  }

  /// Logits, detached, and the loss for labels that are all classes.
  std::pair<at::Tensor, at::Tensor> score(const at::Tensor& hidden, const at::Tensor& labels,
                                          const Parameter& words, const StorePtr& store) {
    const at::Tensor x = transform(hidden, store);
    if (!is_narrow(x) || num_classes_ % 8 != 0) {
      const at::Tensor logits = decode(x, words, store, bias_);
      return {logits.detach(), cross_entropy(logits, labels)};
    }
    // The loss computes the gradient of the bias with that of the logits, in the same pass.
    const bool by_loss = bias_.defined() && bias_.scalar_type() == at::kFloat;
    const at::Tensor logits = decode(x, words, store, by_loss ? bias_.detach() : bias_);
    const auto bias = by_loss ? std::optional(bias_) : std::nullopt;
    return {logits.detach(), transformer::mean_cross_entropy(logits, labels, bias)};
  }

 private:
  at::Tensor transform(const at::Tensor& hidden, const StorePtr& store) {
    if (!dense_) return at::dropout(hidden, dropout_, is_training());
    const bool fused =
        supports_fused_ops_ && is_narrow(hidden) && dense_->bias.scalar_type() == at::kFloat;
    const LayerOps& ops = fused ? fused_ops() : plain_ops();
    return ops.dense_activation_norm(hidden, *dense_, activation_, *norm_, store);
  }

  at::Tensor decode(const at::Tensor& x, const Parameter& words, const StorePtr& store,
                    const at::Tensor& bias) {
    const Parameter weight = decoder_ ? decoder_->indexed_weight() : words;
    return linear(x, cast(x.scalar_type(), weight, store), bias);
  }

  Activation activation_;
  bool supports_fused_ops_;
  std::int64_t num_classes_;
  double dropout_;
  Dense dense_;
  std::shared_ptr<NormImpl> norm_;
  Dense decoder_;
  at::Tensor bias_;
};

/// Masked and causal language models.
class LanguageModelImpl final : public ModelImpl {
 public:
  explicit LanguageModelImpl(const Config& config)
      : ModelImpl(config),
        predictions_(
            register_module("cls", std::make_shared<::torch::nn::Module>())
                ->register_module("predictions", std::make_shared<PredictionsImpl>(config))) {
    initialize();
  }

  Output forward(const Inputs& in) override {
    const bool some = in.logits_at == LogitsAt::kLabels;
    TORCH_CHECK_VALUE(in.labels || !some, "[RoFormer] logits at labels need labels");
    at::Tensor labels;
    at::Tensor labelled;
    if (in.labels) {
      check_labels(*in.labels, in.ids.sizes(), "RoFormer");
      labels = expected(in).flatten();
      // Before the layers, so that the synchronisation of nonzero() waits for nothing else.
      if (some) {
        labelled = in.label_indices ? *in.label_indices : labels.ne(kIgnored).nonzero().squeeze(1);
      }
    }
    const at::Tensor hidden = some ? roformer().forward_at(labelled, in) : roformer().forward(in);
    Output out{.hidden = hidden};
    const Parameter words = roformer().indexed_word_embeddings();
    const StorePtr& store = roformer().store();
    if (some) {
      std::tie(out.logits, out.loss) =
          predictions_->score(hidden, labels.index_select(0, labelled), words, store);
      return out;
    }
    out.logits = predictions_->forward(hidden, words, store);
    if (in.labels) out.loss = cross_entropy(out.logits.flatten(0, 1), labels);
    return out;
  }

 private:
  /// The label of each token.
  at::Tensor expected(const Inputs& in) const {
    if (config().task == Task::kMaskedLm || in.causal_labels == CausalLabels::kNextToken) {
      return *in.labels;
    }
    const at::Tensor none = in.labels->new_full({in.labels->size(0), 1}, kIgnored);
    return at::cat({in.labels->narrow(1, 1, in.labels->size(1) - 1), none}, 1);
  }

  std::shared_ptr<PredictionsImpl> predictions_;
};

/// Cross entropy for classes, mean squared error for one label (regression), binary cross entropy
/// for real labels of several classes (multi-label).
at::Tensor classification_loss(const at::Tensor& logits, const at::Tensor& labels) {
  const std::int64_t classes = logits.size(1);
  if (classes > 1 && !labels.is_floating_point()) {
    check_labels(labels, {logits.size(0)}, "RoFormerForSequenceClassification");
    return cross_entropy(logits, labels);
  }
  TORCH_CHECK_VALUE(labels.numel() == logits.numel(),
                    "[RoFormerForSequenceClassification] labels must be ", logits.sizes(), ", got ",
                    labels.sizes());
  const at::Tensor wanted = labels.to(logits.scalar_type()).view(logits.sizes());
  return classes == 1 ? at::mse_loss(logits, wanted)
                      : at::binary_cross_entropy_with_logits(logits, wanted);
}

class SequenceClassificationImpl final : public ModelImpl {
 public:
  explicit SequenceClassificationImpl(const Config& config) : ModelImpl(config) {
    const auto group = register_module("classifier", std::make_shared<::torch::nn::Module>());
    dense_ =
        group->register_module("dense", make_dense(config.hidden_size, config.hidden_size, config));
    out_ = group->register_module("out_proj",
                                  make_dense(config.hidden_size, config.num_labels, config));
    initialize();
  }

  Output forward(const Inputs& in) override {
    const at::Tensor hidden = roformer().forward(in);
    const double p = config().hidden_dropout_prob;
    // BERT's first layer is its pooler: tanh, and no dropout before it.
    const bool is_bert = config().family == Family::kBert;
    at::Tensor x = hidden.select(1, 0);
    if (!is_bert) x = at::dropout(x, p, is_training());
    x = linear_in_parameter_type(x, *dense_);
    x = at::dropout(is_bert ? at::tanh(x) : activate(x, config().hidden_act), p, is_training());
    Output out{.logits = out_->forward(x), .hidden = hidden};
    if (in.labels) out.loss = classification_loss(out.logits, *in.labels);
    return out;
  }

 private:
  Dense dense_;
  Dense out_;
};

class TokenClassificationImpl final : public ModelImpl {
 public:
  explicit TokenClassificationImpl(const Config& config)
      : ModelImpl(config),
        classifier_(register_module("classifier",
                                    make_dense(config.hidden_size, config.num_labels, config))) {
    initialize();
  }

  Output forward(const Inputs& in) override {
    const at::Tensor hidden = roformer().forward(in);
    const at::Tensor x = at::dropout(hidden, config().hidden_dropout_prob, is_training());
    Output out{.logits = linear_in_parameter_type(x, *classifier_), .hidden = hidden};
    if (in.labels) {
      check_labels(*in.labels, in.ids.sizes(), "RoFormerForTokenClassification");
      out.loss = cross_entropy(out.logits.flatten(0, 1), in.labels->flatten());
    }
    return out;
  }

 private:
  Dense classifier_;
};

class QuestionAnsweringImpl final : public ModelImpl {
 public:
  explicit QuestionAnsweringImpl(const Config& config)
      : ModelImpl(config),
        outputs_(register_module("qa_outputs", make_dense(config.hidden_size, 2, config))) {
    initialize();
  }

  Output forward(const Inputs& in) override {
    const at::Tensor hidden = roformer().forward(in);
    Output out{.logits = linear_in_parameter_type(hidden, *outputs_), .hidden = hidden};
    if (in.labels) {
      check_labels(*in.labels, {in.ids.size(0), 2}, "RoFormerForQuestionAnswering");
      // Answers beyond the text are ignored.
      const std::int64_t end = in.ids.size(1);
      const at::Tensor answers = in.labels->clamp(0, end);
      const at::Tensor first = cross_entropy(out.logits.select(2, 0), answers.select(1, 0), end);
      const at::Tensor last = cross_entropy(out.logits.select(2, 1), answers.select(1, 1), end);
      out.loss = (first + last) / 2;
    }
    return out;
  }

 private:
  Dense outputs_;
};

/// A score for [CLS] A [SEP] B [SEP], as RoFormer's authors compare cases (CAIL2019-SCM).
class PairMatchingImpl final : public ModelImpl {
 public:
  explicit PairMatchingImpl(const Config& config)
      : ModelImpl(config),
        classifier_(register_module("classifier",
                                    make_dense(config.hidden_size, config.num_labels, config))) {
    initialize();
  }

  Output forward(const Inputs& in) override {
    TORCH_CHECK_VALUE(!in.cu_seqlens, "[RoFormerForPairMatching] rows are not packed");
    const at::Tensor hidden = roformer().forward(in);
    const at::Tensor pooled =
        config().pair_pooling == Pooling::kCls ? hidden.select(1, 0) : mean_pool(hidden, in.mask);
    const at::Tensor x = at::dropout(pooled, config().hidden_dropout_prob, is_training());
    Output out{.logits = linear_in_parameter_type(x, *classifier_), .hidden = hidden};
    if (in.labels) out.loss = loss(out.logits, *in.labels);
    return out;
  }

 private:
  /// One label is the probability that the two match.
  static at::Tensor loss(const at::Tensor& logits, const at::Tensor& labels) {
    if (logits.size(1) > 1) {
      check_labels(labels, {logits.size(0)}, "RoFormerForPairMatching");
      return cross_entropy(logits, labels);
    }
    TORCH_CHECK_VALUE(labels.numel() == logits.size(0),
                      "[RoFormerForPairMatching] labels must be [", logits.size(0), "], got ",
                      labels.sizes());
    return at::binary_cross_entropy_with_logits(
        logits, labels.to(logits.scalar_type()).view(logits.sizes()));
  }

  Dense classifier_;
};

}  // namespace

at::Tensor mean_pool(const at::Tensor& hidden, const std::optional<at::Tensor>& mask) {
  if (!mask) return hidden.mean(1);
  const at::Tensor weights = mask->ne(0).to(hidden.scalar_type()).unsqueeze(-1);
  return (hidden * weights).sum(1) / weights.sum(1).clamp_min(1);
}

Model make_model(const Config& config) {
  check_config(config);
  switch (config.task) {
    case Task::kEncoder:
      return std::make_shared<EncoderOnlyImpl>(config);
    case Task::kMaskedLm:
    case Task::kCausalLm:
      return std::make_shared<LanguageModelImpl>(config);
    case Task::kSequenceClassification:
      return std::make_shared<SequenceClassificationImpl>(config);
    case Task::kTokenClassification:
      return std::make_shared<TokenClassificationImpl>(config);
    case Task::kQuestionAnswering:
      return std::make_shared<QuestionAnsweringImpl>(config);
    case Task::kPairMatching:
      return std::make_shared<PairMatchingImpl>(config);
  }
  return nullptr;
}

}  // namespace rotary::roformer
