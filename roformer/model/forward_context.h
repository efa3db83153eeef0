// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// Forward context: what a call of the model tells every layer.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>
#include <vector>

#include "roformer/model/config.h"
#include "roformer/model/mixed_precision.h"
#include "roformer/model/rotation.h"
#include "rotary/torch_positions.h"
#include "rotary/transformer/attention.h"
#include "rotary/transformer/layers.h"

namespace rotary::roformer {

class LayerOps;

/// Hidden states between layers, [batch, tokens, hidden_size], as two tensors of equal values: a
/// layer's products read `hidden`, its residual connection `residual`. Fused operations return two
/// tensors, so that one kernel adds their gradients (see transformer::add_norm()); plain ones
/// return the same tensor twice.
struct HiddenStates {
  at::Tensor hidden{};
  at::Tensor residual{};

  static HiddenStates same(const at::Tensor& x) { return {x, x}; }
  bool is_same() const { return hidden.is_same(residual); }
};

struct ForwardContext {
  /// Fused or plain operations.
  const LayerOps* ops = nullptr;
  /// Null except during training.
  StorePtr store{};
  /// Of the layers, where it is not that of the parameters.
  std::optional<at::ScalarType> compute_type{};
  torch::TokenPositions positions{};
  /// Of softmax attention, with the bias of the encoding.
  transformer::AttendOptions attend{};
  bool causal = false;
  /// Dropout seeds of fused operations: two per layer, then that of the embeddings.
  std::optional<at::Tensor> seeds{};
  /// Of the model's ropes, by their index.
  PassRopes ropes{};
  /// cos and sin of all positions, for the backward pass of fused operations: for each of `ropes`,
  /// or empty.
  std::vector<std::optional<transformer::RotationTable>> tables{};

  /// Tokens whose outputs a layer computes, where not all: [selected], int64, ascending, in one
  /// row. Keys and values are of all tokens. See select_tokens().
  std::optional<at::Tensor> selected{};
  torch::TokenPositions selected_positions{};
  std::vector<std::optional<transformer::RotationTable>> selected_tables{};

  std::optional<at::Tensor> seed(std::int64_t i) const {
    return seeds ? std::optional(seeds->select(0, i)) : std::nullopt;
  }
};

/// The rotation tables of context.ropes for hidden states x; empty where no operation of the
/// context would use them.
std::vector<std::optional<transformer::RotationTable>> rotation_tables(
    const Config& config, const ForwardContext& context, const at::Tensor& x);

/// Whether a layer can compute its outputs at `tokens` alone.
bool can_select_tokens(const Config& config, const ForwardContext& context, const at::Tensor& x,
                       const at::Tensor& tokens);
/// The context of a layer that computes its outputs at `tokens` alone: indices into the rows of
/// x, [batch, tokens, hidden_size], concatenated.
ForwardContext select_tokens(const at::Tensor& tokens, const ForwardContext& context,
                             const at::Tensor& x);

}  // namespace rotary::roformer
