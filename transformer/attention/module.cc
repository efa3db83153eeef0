// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

#include <ATen/Functions.h>

#include <cmath>
#include <ostream>
#include <utility>
#include <vector>

#include "rotary/transformer/attention.h"

namespace rotary::transformer {
namespace {

AttentionOptions checked(AttentionOptions options) {
  TORCH_CHECK_VALUE(options.model_dim > 0 && options.heads > 0,
                    "[Attention] model_dim and heads must be positive, got ", options.model_dim,
                    " and ", options.heads);
  if (options.kv_heads == 0) options.kv_heads = options.heads;
  if (options.kv_dim == 0) options.kv_dim = options.model_dim;
  if (options.head_dim == 0) {
    TORCH_CHECK_VALUE(options.model_dim % options.heads == 0,
                      "[Attention] heads must divide model_dim, got ", options.heads, " and ",
                      options.model_dim);
    options.head_dim = options.model_dim / options.heads;
  }
  TORCH_CHECK_VALUE(options.kv_heads > 0 && options.heads % options.kv_heads == 0,
                    "[Attention] kv_heads must divide heads, got ", options.kv_heads, " and ",
                    options.heads);
  TORCH_CHECK_VALUE(options.dropout >= 0.0 && options.dropout < 1.0,
                    "[Attention] dropout must be at least 0 and below 1, got ", options.dropout);
  return options;
}

::torch::nn::Linear linear(std::int64_t from, std::int64_t to, bool bias) {
  return ::torch::nn::Linear(::torch::nn::LinearOptions(from, to).bias(bias));
}

void check_inputs(const AttentionOptions& options, const at::Tensor& x,
                  const AttentionInputs& inputs) {
  TORCH_CHECK_VALUE(x.dim() == 3 && x.sym_size(2) == options.model_dim,
                    "[Attention] x must be [batch, tokens, ", options.model_dim, "], got ",
                    x.sym_sizes());
  if (inputs.memory) {
    TORCH_CHECK_VALUE(inputs.memory->dim() == 3 && inputs.memory->sym_size(2) == options.kv_dim,
                      "[Attention] memory must be [batch, tokens, ", options.kv_dim, "], got ",
                      inputs.memory->sym_sizes());
  } else {
    TORCH_CHECK_VALUE(!inputs.memory_positions && !inputs.memory_cu_seqlens,
                      "[Attention] memory_positions and memory_cu_seqlens need memory");
  }
  TORCH_CHECK_VALUE(inputs.cache == nullptr || (!inputs.memory && !inputs.cu_seqlens),
                    "[Attention] a cache supports neither memory nor packed sequences");
  TORCH_CHECK_VALUE(
      !options.context_parallel ||
          (inputs.cache == nullptr && !inputs.memory && !inputs.cu_seqlens),
      "[Attention] cache, memory and packed sequences are not supported across ranks");
}

/// Positions of queries and keys of a call.
struct CallPositions {
  torch::TokenPositions queries{};
  std::optional<torch::TokenPositions> memory{};  // of keys, where they are of another sequence
  c10::SymInt first = 0;                          // index of the first query's own key
};

CallPositions positions_of(const at::Tensor& x, const AttentionInputs& inputs,
                           const std::optional<ContextParallel>& parallel) {
  CallPositions positions;
  positions.queries = {.positions = inputs.positions, .cu_seqlens = inputs.cu_seqlens};
  if (inputs.memory) {
    positions.memory = torch::TokenPositions{.positions = inputs.memory_positions,
                                             .cu_seqlens = inputs.memory_cu_seqlens};
  }
  if (inputs.cache != nullptr) positions.first = inputs.cache->tokens();
  if (inputs.positions) return positions;
  positions.queries.first = positions.first;
  if (parallel) {
    positions.queries.positions = shard_positions(x.sym_size(1) * parallel->ranks, *parallel, x);
  }
  return positions;
}

/// The same for encodings of the score. In a cache and in packed sequences distances are those of
/// token indices.
ScorePositions score_positions(const CallPositions& at, const at::Tensor& q, const at::Tensor& k,
                               const AttentionInputs& inputs,
                               const std::optional<ContextParallel>& parallel) {
  ScorePositions positions{.queries = q.sym_size(2), .keys = k.sym_size(2), .first = at.first};
  if (parallel) {
    positions.keys = positions.keys * parallel->ranks;
    const at::Tensor mine = token_positions(at.queries, q.sym_size(2), q);
    positions.query_positions = mine;
    if (inputs.positions) positions.key_positions = gather_tokens(mine, mine.dim() - 1, *parallel);
  } else if (inputs.cache == nullptr && (inputs.positions || inputs.memory)) {
    positions.query_positions = token_positions(at.queries, q.sym_size(2), q);
    positions.key_positions = token_positions(at.memory.value_or(at.queries), k.sym_size(2), k);
  }
  return positions;
}

}  // namespace

AttentionImpl::AttentionImpl(AttentionOptions options)
    : ::torch::nn::Module("Attention"), options_(checked(std::move(options))) {
  const AttentionOptions& o = options_;
  query = register_module("query", linear(o.model_dim, o.heads * o.head_dim, o.bias));
  key = register_module("key", linear(o.kv_dim, o.kv_heads * o.head_dim, o.bias));
  value = register_module("value", linear(o.kv_dim, o.kv_heads * o.head_dim, o.bias));
  output = register_module("output", linear(o.heads * o.head_dim, o.model_dim, o.output_bias));
  if (o.encoding) encoding = register_module("encoding", o.encoding);
}

at::Tensor AttentionImpl::forward(const at::Tensor& x, const AttentionInputs& inputs) {
  check_inputs(options_, x, inputs);
  const at::Tensor& source = inputs.memory ? *inputs.memory : x;
  const auto split = [this](const at::Tensor& y, std::int64_t heads) {
    return y.unflatten(-1, {heads, options_.head_dim});
  };
  at::Tensor q = split(query(x), options_.heads);
  at::Tensor k = split(key(source), options_.kv_heads);
  at::Tensor v = split(value(source), options_.kv_heads);

  const auto& parallel = options_.context_parallel;
  const CallPositions at = positions_of(x, inputs, parallel);
  const EncodingTargets targets = encoding ? encoding->targets() : EncodingTargets{};
  if (targets.query_key) {
    std::vector<at::Tensor> keys = {k};
    if (options_.rotate_values) keys.push_back(v);
    const auto rotated = encoding->rotate(q, keys, at.queries, at.memory ? &*at.memory : nullptr);
    q = rotated[0];
    k = rotated[1];
    if (options_.rotate_values) v = rotated[2];
  }
  q = q.transpose(1, 2);
  k = k.transpose(1, 2);
  v = v.transpose(1, 2);
  if (inputs.cache != nullptr) std::tie(k, v) = inputs.cache->append(k, v);

  AttendOptions options{.first = at.first,
                        .causal = options_.causal,
                        .padding = inputs.padding,
                        .cu_seqlens = inputs.cu_seqlens,
                        .cu_seqlens_k = inputs.memory_cu_seqlens,
                        .max_seqlen = inputs.max_seqlen,
                        .dropout = is_training() ? options_.dropout : 0.0};
  if (options_.window) options.window = *options_.window;
  options.scale = options_.scale.value_or(1.0 / std::sqrt(static_cast<double>(options_.head_dim))) *
                  (encoding ? encoding->softmax_scale() : 1.0);
  if (targets.score) options.bias = encoding->bias(score_positions(at, q, k, inputs, parallel), q);
  if (targets.content) {
    TORCH_CHECK_VALUE(
        !parallel && !inputs.memory && !inputs.positions,
        "[Attention] an encoding of the content supports no positions, memory or ranks: its "
        "distances are those of token indices");
    add_content(*encoding, q, k, options);
  }
  const at::Tensor y =
      parallel ? attend_across(q, k, v, *parallel, options) : attend(q, k, v, options);
  backend_ = last_attention_backend();
  return output(y.transpose(1, 2).flatten(2));
}

void AttentionImpl::pretty_print(std::ostream& stream) const {
  stream << "rotary::transformer::Attention(model_dim=" << options_.model_dim
         << ", heads=" << options_.heads << ", kv_heads=" << options_.kv_heads
         << ", head_dim=" << options_.head_dim << ")";
}

}  // namespace rotary::transformer
