// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// Operations of a layer, behind one interface with two implementations: PyTorch's operators, which
// take any type and device and have second derivatives, and the fused operators of
// rotary/transformer/layers.h.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "roformer/model/config.h"
#include "roformer/model/forward_context.h"
#include "roformer/model/model.h"
#include "roformer/model/modules.h"
#include "rotary/transformer/encodings.h"

namespace rotary::roformer {

/// Dropout of one connection.
struct Dropout {
  double p = 0.0;
  bool training = false;
  /// Before the norm of the embeddings, not after it.
  bool before_norm = false;
  /// Of fused operations, which drop nothing without one.
  std::optional<at::Tensor> seed{};
};

/// Query, key and value projections of a layer.
struct HeadProjections {
  const DenseImpl& query;
  const DenseImpl& key;
  const DenseImpl& value;
  std::int64_t num_heads = 0;
  /// Index into ForwardContext::ropes; none where heads are not rotated.
  std::optional<std::size_t> rope{};
  bool rotate_values = false;
  /// Of queries and keys, before the rotation; null for none. Plain operations only.
  const HeadNormImpl* query_norm = nullptr;
  const HeadNormImpl* key_norm = nullptr;
};

/// The linear maps of a layer.
struct LayerProjections {
  HeadProjections heads;
  const DenseImpl& attention_output;
  const DenseImpl& inner;
  const DenseImpl& outer;
};
/// Their weights, cast for one forward pass where the operations need it.
struct LayerWeights {
  /// Query, key and value; some of them may be concatenated.
  std::vector<at::Tensor> heads{};
  at::Tensor attention_output{};
  at::Tensor inner{};
  at::Tensor outer{};
};

/// Query, key and value heads, each [batch, tokens, heads, head_dim].
struct Heads {
  at::Tensor q{};
  at::Tensor k{};
  at::Tensor v{};
};

/// A linear map whose output is added to a residual connection and normalised.
struct ResidualParams {
  const DenseImpl& dense;
  const NormImpl& norm;
};

class LayerOps {
 public:
  virtual ~LayerOps() = default;

  /// Word and token type embeddings added up, [batch, tokens, embedding_dim]; or only those of the
  /// words, and a bias [embedding_dim] for embedding_norm() to add.
  virtual std::pair<at::Tensor, std::optional<at::Tensor>> embed(
      EmbeddingTableImpl& words, ::torch::nn::EmbeddingImpl& types, const Inputs& inputs,
      const ForwardContext& context) const = 0;
  /// dropout(norm(x + bias)), or norm(dropout(x)).
  virtual HiddenStates embedding_norm(const at::Tensor& x, const std::optional<at::Tensor>& bias,
                                      const NormImpl& norm, const Dropout& dropout) const = 0;

  virtual LayerWeights load_weights(const LayerProjections& layer, at::ScalarType type,
                                    const ForwardContext& context) const = 0;
  /// Queries of `queries`, keys and values of x, rotated by the encoding where `layer` says so.
  virtual Heads project_heads(const at::Tensor& x, const at::Tensor& queries,
                              const std::vector<at::Tensor>& weights, const HeadProjections& layer,
                              transformer::EncodingImpl& encoding,
                              const ForwardContext& context) const = 0;
  /// norm(residual + dropout(dense(x))).
  virtual HiddenStates dense_add_norm(const at::Tensor& x, const at::Tensor& weight,
                                      const at::Tensor& residual, const ResidualParams& output,
                                      const Dropout& dropout) const = 0;
  /// norm(x + dropout(outer(activation(inner(x))))).
  virtual HiddenStates feed_forward_add_norm(const HiddenStates& x, const LayerWeights& weights,
                                             const DenseImpl& inner, Activation activation,
                                             const ResidualParams& output,
                                             const Dropout& dropout) const = 0;

  /// norm(activation(dense(x))), before the logits of a language model.
  virtual at::Tensor dense_activation_norm(const at::Tensor& x, const DenseImpl& dense,
                                           Activation activation, const NormImpl& norm,
                                           const StorePtr& store) const = 0;
};

/// Both live as long as the program.
const LayerOps& plain_ops();
const LayerOps& fused_ops();
/// Whether fused operations exist for this model.
bool supports_fused_ops(const Config& config);

}  // namespace rotary::roformer
