// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// Attention weights of a forward pass, for people who look at a model.
#pragma once

#include <ATen/core/Tensor.h>

#include <utility>
#include <vector>

namespace rotary::roformer {

/// While an object of this is alive, forward passes of this thread record the weights of softmax
/// attention, as they are and as they would be without the rotation of the layer's queries and keys
/// (its inputs being those of the model with rotation). Costs an attention of [keys x keys] values
/// for each. Not recorded: linear attention, and calls with a cache. Guards do not nest.
class AttentionTrace {
 public:
  /// [batch, heads, queries, keys] each.
  struct Layer {
    at::Tensor rotated{};
    at::Tensor unrotated{};
  };

  AttentionTrace() noexcept;
  ~AttentionTrace();
  AttentionTrace(const AttentionTrace&) = delete;
  AttentionTrace& operator=(const AttentionTrace&) = delete;

  /// Of this thread; null if there is none.
  static AttentionTrace* current() noexcept;

  void add(Layer layer) { layers_.push_back(std::move(layer)); }
  /// In the order of the model.
  const std::vector<Layer>& layers() const noexcept { return layers_; }

 private:
  std::vector<Layer> layers_{};
};

}  // namespace rotary::roformer
