// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// From tokens to vectors: what a call asks for becomes what every layer is told.
#include "roformer/model/model.h"

#include <ATen/Functions.h>
#include <torch/nn/init.h>

#include <cmath>
#include <limits>
#include <utility>

#include "roformer/model/layers.h"

namespace rotary::roformer {
namespace {

void check_inputs(const Config& config, const Inputs& in) {
  TORCH_CHECK_VALUE(in.ids.defined() && in.ids.dim() == 2 && in.ids.scalar_type() == at::kLong,
                    "[RoFormer] ids must be [batch, tokens] of int64");
  const std::int64_t batch = in.ids.size(0);
  const std::int64_t before = in.cache == nullptr ? 0 : in.cache->tokens;
  TORCH_CHECK_VALUE(!in.types || in.types->sizes() == in.ids.sizes(),
                    "[RoFormer] types must have the shape of ids, ", in.ids.sizes(), ", got ",
                    in.types->sizes());
  const std::int64_t keys = before + in.ids.size(1);
  TORCH_CHECK_VALUE(
      !in.mask || (in.mask->dim() == 2 && in.mask->size(0) == batch && in.mask->size(1) == keys),
      "[RoFormer] mask must be [", batch, ", ", keys, "], got ", in.mask->sizes());
  TORCH_CHECK_VALUE(in.cache == nullptr || config.causal(),
                    "[RoFormer] a cache is for a causal model");
  TORCH_CHECK_VALUE(!in.cu_seqlens || (in.cache == nullptr && !in.mask),
                    "[RoFormer] packed sequences have neither cache nor mask");
  TORCH_CHECK_VALUE(
      in.cache == nullptr || in.cache->layers.empty() ||
          in.cache->layers.size() == static_cast<std::size_t>(config.num_hidden_layers),
      "[RoFormer] the cache is of a model with ", in.cache->layers.size(), " layers, this one has ",
      config.num_hidden_layers);
}

Pass make_pass(const Config& config, const Inputs& in) {
  Pass pass;
  pass.causal = config.causal();
  pass.attend.causal = pass.causal;
  if (in.cache != nullptr) {
    in.cache->layers.resize(static_cast<std::size_t>(config.num_hidden_layers));
    pass.where.first = in.cache->tokens;
    pass.attend.first = in.cache->tokens;
  }
  if (in.mask) pass.attend.padding = in.mask->to(at::kBool);
  if (in.cu_seqlens) {
    pass.where.cu_seqlens = in.cu_seqlens;
    pass.attend.cu_seqlens = in.cu_seqlens;
    if (in.max_seqlen) pass.attend.max_seqlen = *in.max_seqlen;
  }
  return pass;
}

}  // namespace

RoFormerImpl::RoFormerImpl(const Config& config)
    : ::torch::nn::Module("RoFormer"),
      config_(config),
      embeddings_(register_module("embeddings", std::make_shared<EmbeddingsImpl>(config))) {
  if (config.embedding_dim() != config.hidden_size) {
    project_ = register_module("embeddings_project",
                               make_linear(config.embedding_dim(), config.hidden_size, config));
  }
  encoder_ = register_module("encoder", std::make_shared<EncoderImpl>(config));
}

const at::Tensor& RoFormerImpl::word_embeddings() const { return embeddings_->words(); }

void RoFormerImpl::set_checkpointing(bool on) { encoder_->set_checkpointing(on); }

/// The operators of torch_layers.h are for mixed precision, and for float32 on a GPU.
void RoFormerImpl::choose_layers(const Inputs& in, Pass& pass) const {
  if (!compute_type_) return;
  const bool narrow = *compute_type_ == at::kBFloat16 || *compute_type_ == at::kHalf;
  const bool wide_on_cuda = *compute_type_ == at::kFloat && in.ids.is_cuda();
  pass.fused = has_fused_layers(config_) && (narrow || wide_on_cuda);
  if (pass.fused && is_training() && config_.hidden_dropout_prob > 0.0) {
    pass.seeds = at::randint(std::numeric_limits<std::int64_t>::max(),
                             {2 * config_.num_hidden_layers + 1}, in.ids.options());
  }
}

at::Tensor RoFormerImpl::forward(const Inputs& in) {
  const at::Tensor x = encode(in, nullptr);
  return in.cu_seqlens ? x.squeeze(0).unflatten(0, in.ids.sizes()) : x;
}

at::Tensor RoFormerImpl::forward_at(const at::Tensor& places, const Inputs& in) {
  return encode(in, &places);
}

at::Tensor RoFormerImpl::encode(const Inputs& in, const at::Tensor* places) {
  check_inputs(config_, in);
  Pass pass = make_pass(config_, in);
  pass.kept = kept_;
  torch::EncodingImpl& encoding = encoder_->encoding();
  choose_layers(in, pass);
  const bool fused_words = pass.fused && !encoding.sites().input && !config_.dropout_before_norm;
  Twice twice;
  if (fused_words) twice = embeddings_->forward_fused(in, *compute_type_, pass);
  at::Tensor x = fused_words ? twice.first : embeddings_->forward(in, encoding, pass.where);
  if (project_) x = dense(project_, x, kept_);
  if (compute_type_) x = x.to(*compute_type_);
  if (!fused_words || project_) twice = {x, x};
  if (encoding.sites().score) {
    const c10::SymInt tokens = x.sym_size(1);
    // Layers share one bias; within packed sequences, tokens are as far apart as their places.
    pass.attend.bias = encoding.bias(
        {.queries = tokens, .keys = pass.where.first + tokens, .first = pass.where.first}, x);
  }
  pass.attend.scale = encoding.softmax_scale() / std::sqrt(static_cast<double>(config_.head_dim()));
  pass.table = table_of(config_, pass, x);
  std::optional<Pass> last;
  if (places != nullptr && in.cache == nullptr && can_read_some(config_, pass, x, *places)) {
    last = reading_only(*places, pass, x);
  }
  x = encoder_->forward(std::move(twice), pass, in.cache, last ? &*last : nullptr);
  if (in.cache != nullptr) in.cache->tokens += in.ids.size(1);
  backend_ = config_.attention_type == AttentionKind::kLinear ? "linear" : encoder_->backend();
  if (places == nullptr) return x;
  return last ? x.squeeze(0) : x.flatten(0, 1).index_select(0, *places);
}

ModelImpl::ModelImpl(const Config& config)
    : ::torch::nn::Module("Model"),
      config_(config),
      roformer_(register_module("roformer", std::make_shared<RoFormerImpl>(config))) {}

void ModelImpl::set_compute_type(at::ScalarType type) {
  TORCH_CHECK_VALUE(at::isFloatingType(type), "[RoFormer] the type to compute in must be one of ",
                    "real numbers, got ", type);
  roformer_->set_compute_type(type);
}

void ModelImpl::initialize() {
  const at::NoGradGuard no_grad;
  for (const auto& module : modules(/*include_self=*/false)) {
    if (auto* linear = module->as<::torch::nn::LinearImpl>()) {
      linear->weight.normal_(0.0, config_.initializer_range);
      if (linear->bias.defined()) linear->bias.zero_();
    } else if (auto* embedding = module->as<::torch::nn::EmbeddingImpl>()) {
      embedding->weight.normal_(0.0, config_.initializer_range);
    }
  }
  roformer_->word_embeddings()[config_.pad_token_id].zero_();
}

}  // namespace rotary::roformer
