// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

#include "roformer/model/layer_ops.h"

#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>

namespace rotary::roformer {
namespace {

/// Rotates queries and keys, and values where `layer` says so.
void rotate_heads(const HeadProjections& layer, transformer::EncodingImpl& encoding,
                  const ForwardContext& context, Heads& heads) {
  if (!layer.rope) return;
  const PassRope& rope = (*context.ropes)[*layer.rope];
  std::vector<at::Tensor> keys = {heads.k};
  if (layer.rotate_values) keys.push_back(heads.v);
  const torch::TokenPositions* key_positions = context.selected ? &context.positions : nullptr;
  const torch::TokenPositions& positions =
      context.selected ? context.selected_positions : context.positions;
  const std::vector<at::Tensor> rotated =
      rope.follows_length ? rotate_by_length(heads.q, keys, rope, positions, key_positions)
                          : encoding.rotate(heads.q, keys, positions, key_positions);
  heads.q = rotated[0];
  heads.k = rotated[1];
  if (layer.rotate_values) heads.v = rotated[2];
}

class PlainOps final : public LayerOps {
 public:
  std::pair<at::Tensor, std::optional<at::Tensor>> embed(
      EmbeddingTableImpl& words, ::torch::nn::EmbeddingImpl& types, const Inputs& inputs,
      const ForwardContext& /*context*/) const override {
    const at::Tensor x = words.forward(inputs.ids);
    return {inputs.types ? x + types.forward(*inputs.types) : x + types.weight[0], std::nullopt};
  }

  HiddenStates embedding_norm(const at::Tensor& x, const std::optional<at::Tensor>& /*bias*/,
                              const NormImpl& norm, const Dropout& dropout) const override {
    return HiddenStates::same(dropout.before_norm
                                  ? norm.forward(at::dropout(x, dropout.p, dropout.training))
                                  : at::dropout(norm.forward(x), dropout.p, dropout.training));
  }

  /// As they are: linear() casts each where it is used.
  LayerWeights load_weights(const LayerProjections& layer, at::ScalarType /*type*/,
                            const ForwardContext& /*context*/) const override {
    return {.heads = {layer.heads.query.weight, layer.heads.key.weight, layer.heads.value.weight},
            .attention_output = layer.attention_output.weight,
            .inner = layer.inner.weight,
            .outer = layer.outer.weight};
  }

  Heads project_heads(const at::Tensor& x, const at::Tensor& queries,
                      const std::vector<at::Tensor>& weights, const HeadProjections& layer,
                      transformer::EncodingImpl& encoding,
                      const ForwardContext& context) const override {
    const auto split = [&](const at::Tensor& y) { return y.unflatten(-1, {layer.num_heads, -1}); };
    Heads heads{.q = split(linear(queries, weights[0], layer.query.bias)),
                .k = split(linear(x, weights[1], layer.key.bias)),
                .v = split(linear(x, weights[2], layer.value.bias))};
    if (layer.query_norm != nullptr) {
      heads.q = layer.query_norm->forward(heads.q);
      heads.k = layer.key_norm->forward(heads.k);
    }
    rotate_heads(layer, encoding, context, heads);
    return heads;
  }

  HiddenStates dense_add_norm(const at::Tensor& x, const at::Tensor& weight,
                              const at::Tensor& residual, const ResidualParams& output,
                              const Dropout& dropout) const override {
    const at::Tensor y =
        at::dropout(linear(x, weight, output.dense.bias), dropout.p, dropout.training);
    return HiddenStates::same(output.norm.forward(y + residual));
  }

  HiddenStates feed_forward_add_norm(const HiddenStates& x, const LayerWeights& weights,
                                     const DenseImpl& inner, Activation activation,
                                     const ResidualParams& output,
                                     const Dropout& dropout) const override {
    const at::Tensor y = activate(linear(x.hidden, weights.inner, inner.bias), activation);
    return dense_add_norm(y, weights.outer, x.residual, output, dropout);
  }

  at::Tensor dense_activation_norm(const at::Tensor& x, const DenseImpl& dense,
                                   Activation activation, const NormImpl& norm,
                                   const StorePtr& store) const override {
    return norm.forward(activate(linear(x, dense, store), activation));
  }
};

/// Requires supports_fused_ops(). The bias of a product is added by the operator that follows it,
/// which also computes its gradient.
class FusedOps final : public LayerOps {
 public:
  std::pair<at::Tensor, std::optional<at::Tensor>> embed(
      EmbeddingTableImpl& words, ::torch::nn::EmbeddingImpl& types, const Inputs& inputs,
      const ForwardContext& context) const override {
    const at::ScalarType type = context.compute_type.value();
    if (inputs.types) {
      return {(words.forward(inputs.ids) + types.forward(*inputs.types)).to(type), std::nullopt};
    }
    return {embedding_lookup(words.indexed_weight(), inputs.ids, *words.options.padding_idx(), type,
                             context.store),
            types.weight[0]};
  }

  HiddenStates embedding_norm(const at::Tensor& x, const std::optional<at::Tensor>& bias,
                              const NormImpl& norm, const Dropout& dropout) const override {
    transformer::AddNormOptions options = norm_options(norm, dropout);
    options.dropout_of = transformer::DropoutOf::kResult;
    options.bias = bias;
    return add_norm(x, std::nullopt, options);
  }

  LayerWeights load_weights(const LayerProjections& layer, at::ScalarType type,
                            const ForwardContext& context) const override {
    const Parameter query = layer.heads.query.indexed_weight();
    const Parameter key = layer.heads.key.indexed_weight();
    const Parameter value = layer.heads.value.indexed_weight();
    std::vector<std::vector<Parameter>> groups;
    if (context.selected) {
      groups = {{query}, {key, value}};
    } else {
      groups = {{query, key, value}};
    }
    const auto num_heads = static_cast<std::ptrdiff_t>(groups.size());
    groups.insert(groups.end(), {{layer.attention_output.indexed_weight()},
                                 {layer.inner.indexed_weight()},
                                 {layer.outer.indexed_weight()}});
    const std::vector<at::Tensor> all = cast_and_concat(type, groups, context.store);
    const auto end = all.begin() + num_heads;
    return {
        .heads = {all.begin(), end}, .attention_output = end[0], .inner = end[1], .outer = end[2]};
  }

  Heads project_heads(const at::Tensor& x, const at::Tensor& queries,
                      const std::vector<at::Tensor>& weights, const HeadProjections& layer,
                      transformer::EncodingImpl& encoding,
                      const ForwardContext& context) const override {
    const bool fused = layer.rope && (*context.ropes)[*layer.rope].is_uniform();
    const std::int64_t rotated_queries = fused ? 1 : 0;
    const std::int64_t rotated_keys = !fused ? 0 : layer.rotate_values ? 2 : 1;
    const Parameter query = layer.query.indexed_bias();
    const Parameter key = layer.key.indexed_bias();
    const Parameter value = layer.value.indexed_bias();
    Heads heads;
    if (!context.selected) {
      const auto qkv = split_product(x, weights[0], {query, key, value},
                                     rotated_queries + rotated_keys, layer, context);
      heads = {.q = qkv[0], .k = qkv[1], .v = qkv[2]};
    } else {
      const auto q = split_product(queries, weights[0], {query}, rotated_queries, layer, context);
      const auto kv = split_product(x, weights[1], {key, value}, rotated_keys, layer, context);
      heads = {.q = q[0], .k = kv[0], .v = kv[1]};
    }
    if (!fused) rotate_heads(layer, encoding, context, heads);
    return heads;
  }

  HiddenStates dense_add_norm(const at::Tensor& x, const at::Tensor& weight,
                              const at::Tensor& residual, const ResidualParams& output,
                              const Dropout& dropout) const override {
    return add_norm_of_product(at::linear(x, weight), residual, output, dropout);
  }

  HiddenStates feed_forward_add_norm(const HiddenStates& x, const LayerWeights& weights,
                                     const DenseImpl& inner, Activation /*activation*/,
                                     const ResidualParams& output,
                                     const Dropout& dropout) const override {
    return add_norm_of_product(
        transformer::feed_forward(x.hidden, weights.inner, inner.bias, weights.outer), x.residual,
        output, dropout);
  }

  at::Tensor dense_activation_norm(const at::Tensor& x, const DenseImpl& dense,
                                   Activation /*activation*/, const NormImpl& norm,
                                   const StorePtr& store) const override {
    const at::Tensor weight = cast(x.scalar_type(), dense.indexed_weight(), store);
    const at::Tensor y = transformer::bias_gelu(at::linear(x, weight), dense.bias);
    return add_norm(y, std::nullopt, norm.options()).hidden;
  }

 private:
  static transformer::AddNormOptions norm_options(const NormImpl& norm, const Dropout& dropout) {
    transformer::AddNormOptions options = norm.options();
    if (dropout.seed) {
      options.dropout = dropout.p;
      options.seed = dropout.seed;
    }
    return options;
  }

  static HiddenStates add_norm(const at::Tensor& x, const std::optional<at::Tensor>& residual,
                               const transformer::AddNormOptions& options) {
    const auto [hidden, copy] = transformer::add_norm(x, residual, options);
    return {.hidden = hidden, .residual = copy};
  }

  static HiddenStates add_norm_of_product(const at::Tensor& product, const at::Tensor& residual,
                                          const ResidualParams& output, const Dropout& dropout) {
    transformer::AddNormOptions options = norm_options(output.norm, dropout);
    options.bias = output.dense.bias;
    return add_norm(product, residual, options);
  }

  /// One product for as many of queries, keys and values as there are biases, split into heads; the
  /// first `num_rotated` are rotated in place.
  static std::vector<at::Tensor> split_product(const at::Tensor& x, const at::Tensor& weight,
                                               const std::vector<Parameter>& biases,
                                               std::int64_t num_rotated,
                                               const HeadProjections& layer,
                                               const ForwardContext& context) {
    const at::Tensor bias = cast_and_concat(at::kFloat, {biases}, context.store)[0];
    at::Tensor narrow;  // without a gradient: split_heads_() computes that of `bias`
    {
      const at::NoGradGuard no_grad;
      narrow = cast_and_concat(x.scalar_type(), {biases}, context.store)[0];
    }
    const bool selected = context.selected && biases.size() == 1;
    const auto& tables = selected ? context.selected_tables : context.tables;
    return transformer::split_heads_(
        at::linear(x, weight, narrow),
        {.heads = layer.num_heads,
         .num_projections = static_cast<std::int64_t>(biases.size()),
         .num_rotated = num_rotated,
         .rope = num_rotated > 0 ? (*context.ropes)[*layer.rope].text : std::string(),
         .positions = selected ? context.selected_positions : context.positions,
         .bias = bias,
         // Any table will do where nothing is rotated.
         .table = tables.empty() ? std::nullopt : tables[layer.rope.value_or(0)]});
  }
};

}  // namespace

const LayerOps& plain_ops() {
  static const PlainOps ops;
  return ops;
}

const LayerOps& fused_ops() {
  static const FusedOps ops;
  return ops;
}

bool supports_fused_ops(const Config& config) {
  return config.use_bias && config.norm_type == NormType::kLayer &&
         config.qk_norm == QkNorm::kNone && config.hidden_act == Activation::kGelu &&
         config.hidden_size % 8 == 0 && config.hidden_size <= transformer::kMaxNormWidth &&
         config.intermediate_size % 8 == 0 && config.embedding_dim() % 8 == 0 &&
         config.embedding_dim() <= transformer::kMaxNormWidth;
}

}  // namespace rotary::roformer
