// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// From tokens to hidden states: inputs are checked and become the context of the layers.
#include "roformer/model/model.h"

#include <ATen/Functions.h>
#include <torch/nn/init.h>

#include <cmath>
#include <limits>
#include <utility>

#include "roformer/model/layers.h"
#include "roformer/model/onednn.h"

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

}  // namespace

RoFormerImpl::RoFormerImpl(const Config& config)
    : ::torch::nn::Module("RoFormer"),
      config_(config),
      embeddings_(register_module("embeddings", std::make_shared<EmbeddingsImpl>(config))) {
  if (config.embedding_dim() != config.hidden_size) {
    project_ = register_module("embeddings_project",
                               make_dense(config.embedding_dim(), config.hidden_size, config));
  }
  encoder_ = register_module("encoder", std::make_shared<EncoderImpl>(config));
}

const at::Tensor& RoFormerImpl::word_embeddings() const { return embeddings_->words(); }

void RoFormerImpl::set_checkpointing(bool on) { encoder_->set_checkpointing(on); }

std::vector<RoFormerImpl::LayerFrequencies> RoFormerImpl::learned_frequencies() const {
  const at::NoGradGuard no_grad;
  std::vector<LayerFrequencies> all;
  for (const torch::RotaryEmbeddingImpl* layer : encoder_->learned_rotations()) {
    all.push_back({.learned = layer->frequencies(), .base = layer->base_frequencies()});
  }
  return all;
}

Parameter RoFormerImpl::indexed_word_embeddings() const { return embeddings_->indexed_words(); }

void RoFormerImpl::choose_ops(const Inputs& in, ForwardContext& context) const {
  context.ops = &plain_ops();
  if (!compute_type_ || !supports_fused_ops(config_)) return;
  const bool narrow = *compute_type_ == at::kBFloat16 || *compute_type_ == at::kHalf;
  const bool wide_on_cuda = *compute_type_ == at::kFloat && in.ids.is_cuda();
  if (!narrow && !wide_on_cuda) return;
  context.ops = &fused_ops();
  if (is_training() && config_.hidden_dropout_prob > 0.0) {
    context.seeds = at::randint(std::numeric_limits<std::int64_t>::max(),
                                {2 * config_.num_hidden_layers + 1}, in.ids.options());
  }
}

ForwardContext RoFormerImpl::make_context(const Inputs& in) const {
  ForwardContext context;
  context.store = store_;
  context.compute_type = compute_type_;
  context.causal = config_.causal();
  context.attend.causal = context.causal;
  context.attend.deterministic = deterministic_;
  if (in.cache != nullptr) {
    in.cache->layers.resize(static_cast<std::size_t>(config_.num_hidden_layers));
    context.positions.first = in.cache->tokens;
    context.attend.first = in.cache->tokens;
  }
  if (in.mask) context.attend.padding = in.mask->to(at::kBool);
  if (in.cu_seqlens) {
    context.positions.cu_seqlens = in.cu_seqlens;
    context.attend.cu_seqlens = in.cu_seqlens;
    if (in.max_seqlen) context.attend.max_seqlen = *in.max_seqlen;
  }
  choose_ops(in, context);
  context.ropes = encoder_->rotation().of_pass(in);
  return context;
}

at::Tensor RoFormerImpl::forward(const Inputs& in) {
  const at::Tensor x = encode(in, nullptr);
  return in.cu_seqlens ? x.squeeze(0).unflatten(0, in.ids.sizes()) : x;
}

at::Tensor RoFormerImpl::forward_at(const at::Tensor& tokens, const Inputs& in) {
  return encode(in, &tokens);
}

at::Tensor RoFormerImpl::encode(const Inputs& in, const at::Tensor* tokens) {
  check_inputs(config_, in);
  ForwardContext context = make_context(in);
  transformer::EncodingImpl& encoding = encoder_->encoding();
  HiddenStates states = embeddings_->forward(in, encoding, context);
  if (project_) states = HiddenStates::same(linear(states.hidden, *project_, store_));
  if (compute_type_ && states.hidden.scalar_type() != *compute_type_) {
    states = HiddenStates::same(states.hidden.to(*compute_type_));
  }
  // Fused operations have no cache.
  if (in.cache != nullptr) context.ops = &plain_ops();
  const at::Tensor& x = states.hidden;
  if (encoding.targets().score) {
    const c10::SymInt num_tokens = x.sym_size(1);
    const c10::SymInt& first = context.positions.first;
    // One bias for all layers. Distances within a packed sequence are those of the row.
    context.attend.bias =
        encoding.bias({.queries = num_tokens, .keys = first + num_tokens, .first = first}, x);
  }
  context.attend.scale =
      encoding.softmax_scale() / std::sqrt(static_cast<double>(config_.head_dim()));
  context.tables = rotation_tables(config_, context, x);
  std::optional<ForwardContext> last;
  if (tokens != nullptr && in.cache == nullptr && can_select_tokens(config_, context, x, *tokens)) {
    last = select_tokens(*tokens, context, x);
  }
  const at::Tensor y =
      encoder_->forward(std::move(states), context, in.cache, last ? &*last : nullptr);
  if (in.cache != nullptr) in.cache->tokens += in.ids.size(1);
  backend_ = config_.attention_type == AttentionKind::kLinear ? "linear" : encoder_->backend();
  if (tokens == nullptr) return y;
  return last ? y.squeeze(0) : y.flatten(0, 1).index_select(0, *tokens);
}

ModelImpl::ModelImpl(const Config& config)
    : ::torch::nn::Module("Model"),
      config_(config),
      roformer_(register_module("roformer", std::make_shared<RoFormerImpl>(config))) {}

void ModelImpl::set_compute_type(at::ScalarType type) {
  TORCH_CHECK_VALUE(at::isFloatingType(type),
                    "[RoFormer] the compute type must be a floating-point type, got ", type);
  const bool on_cpu = roformer_->word_embeddings().is_cpu();
  if (on_cpu && type == at::kBFloat16) disable_onednn_without_bf16();
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
  index_parameters(*this);
}

std::shared_ptr<ParameterStore> ModelImpl::make_store(std::int64_t ranks) {
  const auto store = std::make_shared<ParameterStore>(*this, ranks);
  roformer_->set_store(store);
  return store;
}

}  // namespace rotary::roformer
