// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

#include "roformer/model/layers.h"

#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>

#include <tuple>
#include <utility>

#include "roformer/model/mixed.h"
#include "roformer/model/recompute.h"
#include "rotary/frequencies.h"
#include "rotary/rope.h"
#include "rotary/torch_rope.h"

namespace rotary::roformer {
namespace {

/// A module that only gives names to those in it.
std::shared_ptr<::torch::nn::Module> add_group(::torch::nn::Module& parent, const char* name) {
  return parent.register_module(name, std::make_shared<::torch::nn::Module>());
}

/// RoFormer turns neighbours: (x_2i, x_2i+1) by m theta^(-2i/d).
std::string rope_of(const Config& config) {
  return torch::to_text(
      {.frequencies =
           make_frequencies({.rotary_dim = config.head_dim(), .theta = config.rope_theta}),
       .layout = {.head_dim = config.head_dim(), .pairing = Pairing::kInterleaved}});
}

bool has_rope(const Config& config) {
  return config.position_encoding.find("rope") != std::string::npos;
}

std::shared_ptr<torch::EncodingImpl> encoding_of(const Config& config) {
  return torch::make_encoding({.name = config.position_encoding,
                               .model_dim = config.embedding_dim(),
                               .max_positions = config.max_position_embeddings,
                               .heads = config.num_attention_heads,
                               .causal = config.causal(),
                               .rope = has_rope(config) ? rope_of(config) : std::string()});
}

}  // namespace

bool has_fused_layers(const Config& config) {
  return config.use_bias && config.norm_type == NormType::kLayer &&
         config.hidden_act == Activation::kGelu && config.hidden_size % 8 == 0 &&
         config.hidden_size <= torch::kMostNormWidth && config.intermediate_size % 8 == 0 &&
         config.embedding_dim() % 8 == 0 && config.embedding_dim() <= torch::kMostNormWidth;
}

at::Tensor activate(const at::Tensor& x, Activation activation) {
  switch (activation) {
    case Activation::kGelu:
      return at::gelu(x);
    case Activation::kGeluTanh:
      return at::gelu(x, "tanh");
    case Activation::kRelu:
      return at::relu(x);
    case Activation::kSilu:
      return at::silu(x);
  }
  return x;
}

::torch::nn::Linear make_linear(std::int64_t from, std::int64_t to, const Config& config) {
  return ::torch::nn::Linear(::torch::nn::LinearOptions(from, to).bias(config.use_bias));
}

at::Tensor dense(const ::torch::nn::Linear& layer, const at::Tensor& x,
                 const std::shared_ptr<NarrowWeights>& kept) {
  const at::ScalarType type = x.scalar_type();
  const at::Tensor weight =
      kept ? joined_as(type, {{layer->weight}}, kept)[0] : layer->weight.to(type);
  return at::linear(x, weight,
                    layer->bias.defined() ? std::optional(layer->bias.to(type)) : std::nullopt);
}

NormImpl::NormImpl(std::int64_t size, const Config& config)
    : ::torch::nn::Module("LayerNorm"),
      type_(config.norm_type),
      size_(size),
      eps_(config.layer_norm_eps) {
  if (type_ == NormType::kRms) return;
  weight_ = register_parameter("weight", at::ones({size}));
  bias_ = register_parameter("bias", at::zeros({size}));
}

at::Tensor NormImpl::forward(const at::Tensor& x) const {
  const at::ScalarType type = at::promote_types(x.scalar_type(), at::kFloat);
  const at::Tensor wide = x.to(type);
  const at::Tensor y = type_ == NormType::kRms
                           ? at::rms_norm(wide, {size_}, std::nullopt, eps_)
                           : at::layer_norm(wide, {size_}, weight_.to(type), bias_.to(type), eps_);
  return y.to(x.scalar_type());
}

EmbeddingsImpl::EmbeddingsImpl(const Config& config)
    : ::torch::nn::Module("Embeddings"),
      dropout_(config.hidden_dropout_prob),
      dropout_first_(config.dropout_before_norm) {
  const std::int64_t size = config.embedding_dim();
  words_ = register_module("word_embeddings", ::torch::nn::Embedding(config.vocab_size, size));
  types_ = register_module("token_type_embeddings",
                           ::torch::nn::Embedding(config.type_vocab_size, size));
  words_->options.padding_idx(config.pad_token_id);
  norm_ = register_module("LayerNorm", std::make_shared<NormImpl>(size, config));
}

Twice EmbeddingsImpl::forward_fused(const Inputs& inputs, at::ScalarType type, const Pass& pass) {
  torch::AddNormOptions options = norm_->options();
  options.dropout_of = torch::DropoutOf::kResult;
  if (pass.seeds) {
    options.dropout = dropout_;
    options.seed = pass.seeds->select(0, -1);
  }
  at::Tensor x;
  if (inputs.types) {
    x = (words_(inputs.ids) + types_(*inputs.types)).to(type);
  } else {
    options.bias = types_->weight[0];
    x = look_up(words_->weight, inputs.ids, *words_->options.padding_idx(), type, pass.kept);
  }
  if (inputs.cu_seqlens) x = x.flatten(0, 1).unsqueeze(0);
  return torch::add_norm(x, std::nullopt, options);
}

at::Tensor EmbeddingsImpl::forward(const Inputs& inputs, torch::EncodingImpl& encoding,
                                   const torch::Where& where) {
  at::Tensor x = words_(inputs.ids);
  x = inputs.types ? x + types_(*inputs.types) : x + types_->weight[0];
  if (where.cu_seqlens) x = x.flatten(0, 1).unsqueeze(0);
  if (encoding.sites().input) {
    // As numbers: a table of positions knows no packed sequences.
    x = where.cu_seqlens
            ? encoding.embed(x, {.positions = torch::token_positions(where, x.sym_size(1), x)})
            : encoding.embed(x, where);
  }
  if (dropout_first_) return norm_->forward(at::dropout(x, dropout_, is_training()));
  return at::dropout(norm_->forward(x), dropout_, is_training());
}

SelfAttentionImpl::SelfAttentionImpl(const Config& config)
    : ::torch::nn::Module("SelfAttention"),
      heads_(config.num_attention_heads),
      kind_(config.attention_type),
      turn_values_(config.rotary_value),
      dropout_(config.attention_probs_dropout_prob),
      rope_(has_rope(config) ? rope_of(config) : std::string()) {
  const std::int64_t size = config.hidden_size;
  query_ = register_module("query", make_linear(size, size, config));
  key_ = register_module("key", make_linear(size, size, config));
  value_ = register_module("value", make_linear(size, size, config));
}

at::Tensor SelfAttentionImpl::softmax(at::Tensor q, at::Tensor k, at::Tensor v,
                                      torch::EncodingImpl& encoding, const Pass& pass,
                                      Cache::Layer* cache) {
  if (encoding.sites().query_key) {
    std::vector<at::Tensor> keys = {k};
    if (turn_values_) keys.push_back(v);
    const std::vector<at::Tensor> turned =
        pass.read ? encoding.turn(q, keys, pass.read_where, &pass.where)
                  : encoding.turn(q, keys, pass.where);
    q = turned[0];
    k = turned[1];
    if (turn_values_) v = turned[2];
  }
  return attend_turned(q, k, v, pass, cache);
}

at::Tensor SelfAttentionImpl::attend_turned(const at::Tensor& q, const at::Tensor& k,
                                            const at::Tensor& v, const Pass& pass,
                                            Cache::Layer* cache) {
  at::Tensor keys = k.transpose(1, 2);
  at::Tensor values = v.transpose(1, 2);
  if (cache != nullptr) std::tie(keys, values) = cache->softmax.append(keys, values);
  torch::AttendOptions options = pass.attend;
  options.dropout = is_training() ? dropout_ : 0.0;
  return torch::attend(q.transpose(1, 2), keys, values, options);
}

at::Tensor SelfAttentionImpl::linear(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                                     const Pass& pass, Cache::Layer* cache) {
  torch::LinearAttendOptions options{.rope = rope_,
                                     .causal = pass.causal,
                                     .padding = pass.attend.padding,
                                     .cu_seqlens = pass.attend.cu_seqlens};
  const auto heads_first = [](const at::Tensor& x) { return x.transpose(1, 2); };
  if (cache != nullptr) {
    return torch::linear_attend(heads_first(q), heads_first(k), heads_first(v), cache->linear,
                                std::move(options));
  }
  return torch::linear_attend(heads_first(q), heads_first(k), heads_first(v), options);
}

at::Tensor SelfAttentionImpl::forward(const at::Tensor& x, const at::Tensor& asking,
                                      torch::EncodingImpl& encoding, const Pass& pass,
                                      Cache::Layer* cache) {
  const auto split = [this](const at::Tensor& y) { return y.unflatten(-1, {heads_, -1}); };
  const at::Tensor q = split(dense(query_, asking));
  const at::Tensor k = split(dense(key_, x));
  const at::Tensor v = split(dense(value_, x));
  const at::Tensor y = kind_ == AttentionKind::kLinear ? linear(q, k, v, pass, cache)
                                                       : softmax(q, k, v, encoding, pass, cache);
  return y.transpose(1, 2).flatten(2);
}

std::vector<at::Tensor> SelfAttentionImpl::split_product(const at::Tensor& x,
                                                         const at::Tensor& weight,
                                                         const std::vector<at::Tensor>& biases,
                                                         std::int64_t turned,
                                                         const Pass& pass) const {
  const at::Tensor bias = joined_as(at::kFloat, {biases}, pass.kept)[0];
  at::Tensor narrow;  // its gradient is the one of `bias`, which comes from split_heads_()
  {
    const at::NoGradGuard no_grad;
    narrow = joined_as(x.scalar_type(), {biases}, pass.kept)[0];
  }
  const bool asks = pass.read && biases.size() == 1;
  return torch::split_heads_(at::linear(x, weight, narrow),
                             {.heads = heads_,
                              .parts = static_cast<std::int64_t>(biases.size()),
                              .turned = turned,
                              .rope = rope_,
                              .where = asks ? pass.read_where : pass.where,
                              .bias = bias,
                              .table = asks ? pass.read_table : pass.table});
}

at::Tensor SelfAttentionImpl::forward_fused(const at::Tensor& x, const at::Tensor& asking,
                                            at::TensorList weights, torch::EncodingImpl& encoding,
                                            const Pass& pass) {
  const bool turns = kind_ == AttentionKind::kSoftmax && encoding.sites().query_key;
  const std::int64_t keys = turn_values_ ? 2 : 1;
  std::vector<at::Tensor> heads;
  if (pass.read) {
    heads = split_product(asking, weights[0], {query_->bias}, turns ? 1 : 0, pass);
    for (at::Tensor& part :
         split_product(x, weights[1], {key_->bias, value_->bias}, turns ? keys : 0, pass)) {
      heads.push_back(std::move(part));
    }
  } else {
    heads = split_product(x, weights[0], {query_->bias, key_->bias, value_->bias},
                          turns ? 1 + keys : 0, pass);
  }
  const at::Tensor y = kind_ == AttentionKind::kLinear
                           ? linear(heads[0], heads[1], heads[2], pass, nullptr)
                           : attend_turned(heads[0], heads[1], heads[2], pass, nullptr);
  return y.transpose(1, 2).flatten(2);
}

std::vector<std::vector<at::Tensor>> SelfAttentionImpl::weights(const Pass& pass) const {
  if (pass.read) return {{query_->weight}, {key_->weight, value_->weight}};
  return {{query_->weight, key_->weight, value_->weight}};
}

ResidualImpl::ResidualImpl(std::int64_t from, const Config& config)
    : ::torch::nn::Module("Residual"), dropout_(config.hidden_dropout_prob) {
  dense_ = register_module("dense", make_linear(from, config.hidden_size, config));
  norm_ = register_module("LayerNorm", std::make_shared<NormImpl>(config.hidden_size, config));
}

at::Tensor ResidualImpl::forward(const at::Tensor& x, const at::Tensor& before) {
  return norm_->forward(at::dropout(dense(dense_, x), dropout_, is_training()) + before);
}

Twice ResidualImpl::finish(const at::Tensor& product, const at::Tensor& before,
                           const std::optional<at::Tensor>& seed) {
  torch::AddNormOptions options = norm_->options();
  options.bias = dense_->bias;
  if (seed) {
    options.dropout = dropout_;
    options.seed = seed;
  }
  return torch::add_norm(product, before, options);
}

LayerImpl::LayerImpl(const Config& config, std::int64_t number)
    : ::torch::nn::Module("Layer"), number_(number), activation_(config.hidden_act) {
  const auto attention = add_group(*this, "attention");
  self_ = attention->register_module("self", std::make_shared<SelfAttentionImpl>(config));
  attention_output_ = attention->register_module(
      "output", std::make_shared<ResidualImpl>(config.hidden_size, config));
  intermediate_ = add_group(*this, "intermediate")
                      ->register_module("dense", make_linear(config.hidden_size,
                                                             config.intermediate_size, config));
  output_ =
      register_module("output", std::make_shared<ResidualImpl>(config.intermediate_size, config));
}

Twice LayerImpl::forward(const Twice& x, torch::EncodingImpl& encoding, const Pass& pass,
                         Cache::Layer* cache) {
  if (pass.fused && cache == nullptr) return forward_fused(x, encoding, pass);
  const at::Tensor asking = pass.read ? x.second.index_select(1, *pass.read) : x.second;
  const at::Tensor y =
      attention_output_->forward(self_->forward(x.first, asking, encoding, pass, cache), asking);
  const at::Tensor z = output_->forward(activate(dense(intermediate_, y), activation_), y);
  return {z, z};
}

Twice LayerImpl::forward_fused(const Twice& x, torch::EncodingImpl& encoding, const Pass& pass) {
  const auto seed = [&](std::int64_t which) {
    return pass.seeds ? std::optional(pass.seeds->select(0, 2 * number_ + which)) : std::nullopt;
  };
  std::vector<std::vector<at::Tensor>> groups = self_->weights(pass);
  const std::size_t own = groups.size();
  groups.insert(groups.end(),
                {{attention_output_->weight()}, {intermediate_->weight}, {output_->weight()}});
  const std::vector<at::Tensor> narrow = joined_as(x.first.scalar_type(), groups, pass.kept);
  const at::Tensor asking = pass.read ? x.second.index_select(1, *pass.read) : x.second;
  const at::Tensor seen = self_->forward_fused(x.first, asking, narrow, encoding, pass);
  const Twice y = attention_output_->finish(at::linear(seen, narrow[own]), asking, seed(0));
  const at::Tensor z =
      torch::feed_forward(y.first, narrow[own + 1], intermediate_->bias, narrow[own + 2]);
  return output_->finish(z, y.second, seed(1));
}

EncoderImpl::EncoderImpl(const Config& config)
    : ::torch::nn::Module("Encoder"), encoding_(encoding_of(config)) {
  register_module("encoding", encoding_);
  const auto group = add_group(*this, "layer");
  for (std::int64_t i = 0; i < config.num_hidden_layers; ++i) {
    layers_.push_back(
        group->register_module(std::to_string(i), std::make_shared<LayerImpl>(config, i)));
  }
}

/// The bias of the scores is made before the layers and shared by them: an input, too.
Twice EncoderImpl::recompute(LayerImpl& layer, const Twice& x, const Pass& pass) {
  const bool two = !x.first.is_same(x.second);
  std::vector<at::Tensor> inputs = {x.first};
  if (two) inputs.push_back(x.second);
  if (pass.attend.bias) inputs.push_back(*pass.attend.bias);
  const auto compute = [this, &layer, pass, two](const std::vector<at::Tensor>& in) {
    Pass again = pass;
    if (again.attend.bias) again.attend.bias = in.back();
    const Twice y = layer.forward({in[0], in[two ? 1 : 0]}, *encoding_, again, nullptr);
    return y.first.is_same(y.second) ? std::vector{y.first} : std::vector{y.first, y.second};
  };
  const std::vector<at::Tensor> y = recomputed(compute, inputs, layer.parameters());
  return {y.front(), y.back()};
}

at::Tensor EncoderImpl::forward(Twice all, const Pass& pass, Cache* cache, const Pass* last) {
  const bool recomputes = checkpointing_ && at::GradMode::is_enabled() && cache == nullptr;
  for (std::size_t i = 0; i < layers_.size(); ++i) {
    const bool reads_some = last != nullptr && i + 1 == layers_.size();
    if (reads_some) {
      const auto one_row = [](const at::Tensor& y) { return y.flatten(0, 1).unsqueeze(0); };
      const bool same = all.first.is_same(all.second);
      all.first = one_row(all.first);
      all.second = same ? all.first : one_row(all.second);
    }
    const Pass& own = reads_some ? *last : pass;
    all = recomputes ? recompute(*layers_[i], all, own)
                     : layers_[i]->forward(all, *encoding_, own,
                                           cache == nullptr ? nullptr : &cache->layers[i]);
    if (i == 0) backend_ = torch::last_attention_backend();
  }
  return all.first;
}

bool can_read_some(const Config& config, const Pass& pass, const at::Tensor& x,
                   const at::Tensor& places) {
  const std::int64_t tokens = x.size(0) * x.size(1);
  // Kernels take so many queries a sequence in 16 bits only; on the CPU, sequences go one by one.
  const bool has_kernel = x.is_cpu() || x.element_size() == 2;
  return config.attention_type == AttentionKind::kSoftmax && !pass.causal && !pass.attend.padding &&
         !pass.attend.bias && has_kernel && places.numel() > 0 && 2 * places.numel() <= tokens;
}

std::optional<torch::TurnTable> table_of(const Config& config, const Pass& pass,
                                         const at::Tensor& x) {
  if (!pass.fused || !x.is_cuda() || !at::GradMode::is_enabled() || !has_rope(config) ||
      config.attention_type != AttentionKind::kSoftmax) {
    return std::nullopt;
  }
  const std::int64_t longest =
      pass.attend.max_seqlen ? pass.attend.max_seqlen->expect_int() : x.size(1);
  return torch::turn_table(rope_of(config), pass.where, x.size(1), longest, x);
}

Pass reading_only(const at::Tensor& places, const Pass& pass, const at::Tensor& x) {
  const std::int64_t tokens = x.size(0) * x.size(1);
  Pass some = pass;
  if (!some.where.cu_seqlens) {
    some.where.cu_seqlens = at::arange(0, tokens + 1, x.size(1), places.options().dtype(at::kInt));
    some.attend.max_seqlen = x.size(1);
  }
  const at::Tensor positions = torch::token_positions(some.where, tokens, places);
  some.read = places;
  some.read_where.positions = positions.index_select(0, places);
  some.attend.cu_seqlens_k = some.where.cu_seqlens;
  some.attend.cu_seqlens = at::searchsorted(places, some.where.cu_seqlens->to(at::kLong),
                                            /*out_int32=*/true);
  if (pass.table) {
    some.table->places = positions;
    some.read_table = {.angles = pass.table->angles, .places = some.read_where.positions};
  }
  return some;
}

}  // namespace rotary::roformer
