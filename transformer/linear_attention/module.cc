// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

#include <ATen/Functions.h>

#include <ostream>
#include <utility>

#include "rotary/transformer/linear_attention.h"
#include "transformer/linear_attention/check.h"

namespace rotary::transformer {
namespace {

LinearAttentionOptions checked(LinearAttentionOptions options) {
  TORCH_CHECK_VALUE(options.model_dim > 0 && options.heads > 0,
                    "[LinearAttention] model_dim and heads must be positive, got ",
                    options.model_dim, " and ", options.heads);
  if (options.kv_heads == 0) options.kv_heads = options.heads;
  if (options.head_dim == 0) {
    TORCH_CHECK_VALUE(options.model_dim % options.heads == 0,
                      "[LinearAttention] heads must divide model_dim, got ", options.heads, " and ",
                      options.model_dim);
    options.head_dim = options.model_dim / options.heads;
  }
  if (options.value_dim == 0) options.value_dim = options.head_dim;
  if (options.features == 0) options.features = default_features(options.head_dim);
  TORCH_CHECK_VALUE(options.kv_heads > 0 && options.heads % options.kv_heads == 0,
                    "[LinearAttention] kv_heads must divide heads, got ", options.kv_heads, " and ",
                    options.heads);
  TORCH_CHECK_VALUE(options.redraw_every >= 0,
                    "[LinearAttention] redraw_every must not be negative, got ",
                    options.redraw_every);
  return options;
}

::torch::nn::Linear make_linear(std::int64_t from, std::int64_t to, bool bias) {
  return ::torch::nn::Linear(::torch::nn::LinearOptions(from, to).bias(bias));
}

bool uses_favor(const LinearAttendOptions& o) {
  return o.feature_map == FeatureMap::kFavor && o.variant != LinearVariant::kCosine;
}

/// [batch, tokens, heads * width] as [batch, heads, tokens, width].
at::Tensor split_heads(const at::Tensor& x, std::int64_t heads) {
  return x.unflatten_symint(-1, {heads, x.sym_size(-1) / heads}).transpose(1, 2);
}

}  // namespace

LinearAttentionImpl::LinearAttentionImpl(LinearAttentionOptions options)
    : ::torch::nn::Module("LinearAttention"), options_(checked(std::move(options))) {
  const LinearAttentionOptions& o = options_;
  query = register_module("query", make_linear(o.model_dim, o.heads * o.head_dim, o.bias));
  key = register_module("key", make_linear(o.model_dim, o.kv_heads * o.head_dim, o.bias));
  value = register_module("value", make_linear(o.model_dim, o.kv_heads * o.value_dim, o.bias));
  output = register_module("output", make_linear(o.heads * o.value_dim, o.model_dim, o.bias));
  if (uses_favor(o.attend)) {
    projection = register_buffer("projection", orthogonal_features(o.features, o.head_dim));
    options_.attend.projection = projection;
  }
  if (o.attend.decay) decay = register_buffer("decay", *o.attend.decay);
}

void LinearAttentionImpl::redraw() {
  if (!projection.defined()) return;
  const at::NoGradGuard no_grad;
  projection.copy_(orthogonal_features(options_.features, options_.head_dim));
}

LinearAttentionImpl::Heads LinearAttentionImpl::heads_of(const at::Tensor& x) {
  TORCH_CHECK_VALUE(x.dim() == 3 && x.sym_size(2) == options_.model_dim,
                    "[LinearAttention] x must be [batch, tokens, ", options_.model_dim, "], got ",
                    x.sym_sizes());
  if (projection.defined()) options_.attend.projection = projection;  // to() may have replaced it
  if (decay.defined()) options_.attend.decay = decay;
  return {split_heads(query(x), options_.heads), split_heads(key(x), options_.kv_heads),
          split_heads(value(x), options_.kv_heads)};
}

at::Tensor LinearAttentionImpl::join(const at::Tensor& y) {
  return output(y.transpose(1, 2).flatten(-2));
}

at::Tensor LinearAttentionImpl::forward(const at::Tensor& x,
                                        const std::optional<at::Tensor>& padding,
                                        const torch::TokenPositions& positions) {
  const Heads h = heads_of(x);
  if (is_training() && options_.redraw_every > 0 && ++calls_ % options_.redraw_every == 0) {
    redraw();
  }
  LinearAttendOptions o = options_.attend;
  o.padding = padding;
  o.positions = positions.positions;
  o.cu_seqlens = positions.cu_seqlens;
  o.first = positions.first;
  return join(linear_attend(h.q, h.k, h.v, o));
}

at::Tensor LinearAttentionImpl::forward(const at::Tensor& x, LinearState& state) {
  const Heads h = heads_of(x);
  return join(linear_attend(h.q, h.k, h.v, state, options_.attend));
}

void LinearAttentionImpl::pretty_print(std::ostream& stream) const {
  stream << "rotary::transformer::LinearAttention(model_dim=" << options_.model_dim
         << ", heads=" << options_.heads << ", kv_heads=" << options_.kv_heads
         << ", variant=" << name_of(options_.attend.variant)
         << ", feature_map=" << name_of(options_.attend.feature_map)
         << (options_.attend.causal ? ", causal" : "") << ")";
}

}  // namespace rotary::transformer
