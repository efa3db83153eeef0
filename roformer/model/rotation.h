// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// The rotation of queries and keys in one forward pass.
//
// Most ropes are the same in every pass. The frequencies of some (dynamic, longrope,
// yarn_walkthrough) depend on the length of the text: each row of a batch, or each packed sequence,
// is then rotated by the rope of its own length, so that a text has the same results in any batch.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "roformer/model/model.h"
#include "roformer/model/rope_config.h"
#include "rotary/torch_positions.h"

namespace rotary::roformer {

/// Tokens of texts with the same rope.
struct RopeGroup {
  /// The rope in text form (rotary/torch_rope.h).
  std::string rope{};
  /// Indices into the concatenated rows, and their positions: [tokens], int64.
  at::Tensor tokens{};
  at::Tensor positions{};
};

/// A rope in one forward pass.
struct PassRope {
  /// In text form, of all tokens; unused where there are groups.
  std::string text{};
  /// Made for the lengths of this batch: it is not the rope of the layer's encoding.
  bool follows_length = false;
  /// xPos: keys are rotated otherwise than queries.
  bool grows = false;
  /// Texts of different lengths, if their ropes differ.
  std::vector<RopeGroup> groups{};
  /// Index of each token of the rows in the concatenated groups, [batch tokens], int64.
  at::Tensor order{};

  /// Whether `text` rotates queries and keys of all tokens.
  bool is_uniform() const noexcept { return !grows && groups.empty(); }
};
using PassRopes = std::shared_ptr<const std::vector<PassRope>>;

/// The rope of one layer.
struct LayerRope {
  /// The layer's number.
  std::int64_t layer = 0;
  /// Of the model's ropes; none without rotation.
  std::optional<std::size_t> index{};
  /// In text form, with the context of config.rope_context; empty without rotation.
  std::string text{};
};

/// The ropes of a model's layers.
class Rotation {
 public:
  explicit Rotation(const Config& config);

  const LayerRopes& layers() const noexcept { return layers_; }
  /// The same in every pass, with the context of config.rope_context.
  const PassRopes& fixed() const noexcept { return fixed_; }
  /// For this batch; fixed() where nothing depends on its lengths. Throws c10::ValueError for a
  /// cache where something does.
  PassRopes of_pass(const Inputs& inputs) const;

 private:
  LayerRopes layers_;
  bool follows_length_;
  PassRopes fixed_;
};

/// EncodingImpl::rotate() of heads, [batch, tokens, heads, head_dim], by a rope that
/// follows_length. Key positions may differ where there are no groups.
std::vector<at::Tensor> rotate_by_length(const at::Tensor& queries,
                                         const std::vector<at::Tensor>& keys, const PassRope& rope,
                                         const torch::TokenPositions& positions,
                                         const torch::TokenPositions* key_positions);

/// The rope of a layer in text form, with the context of config.rope_context; empty for a layer
/// without rotation.
std::string rope_text(const Config& config, std::int64_t layer);

}  // namespace rotary::roformer
