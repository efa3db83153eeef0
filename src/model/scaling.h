// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// The rope dictionary of a config (rope_parameters, rope_scaling) as a Scaling.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "model/lookup.h"
#include "rotary/model.h"
#include "rotary/recipe.h"

namespace rotary::internal {

/// The dictionary that describes one rotation: what the file gives, else the family's default.
class RopeDict {
 public:
  /// `dict` may be null: no dictionary anywhere.
  RopeDict(const Json* dict, bool assumed, const Lookup& lookup);

  /// "default", "linear", ... in today's spelling. Throws for an unknown type, naming those there
  /// are.
  const std::string& type() const noexcept { return type_; }

  /// True even where the value is null.
  bool has(std::string_view key) const { return dict_ != nullptr && dict_->contains(key); }
  /// Null if absent or null in the dictionary.
  const Json* find(std::string_view key) const;
  std::optional<double> number(std::string_view key) const;
  /// As Python's `x or default`: zero counts as absent.
  std::optional<double> nonzero(std::string_view key) const;
  double required(std::string_view key) const;
  bool given() const noexcept { return dict_ != nullptr && !assumed_; }

  /// Lines on keys that nobody knows, with the nearest known one, and on keys that this type does
  /// not use.
  std::vector<std::string> key_warnings() const;

  /// The line to add to `assumed` where the dictionary is the family's default; empty otherwise.
  std::string assumed_line() const;

  const std::string& source() const noexcept { return source_; }

 private:
  const Json* dict_;
  bool assumed_;
  std::string source_;
  std::string model_type_;
  std::string type_;
};

/// What the dictionary leaves to its surroundings.
struct ScalingContext {
  std::optional<std::int64_t> max_position_embeddings;
  std::optional<std::int64_t> top_level_original;
  std::optional<std::int64_t> usual_original;  // of the family
  double partial = 1.0;
  SoftmaxCorrection softmax_correction = SoftmaxCorrection::kNone;
  /// The family's, where yarn is given none.
  std::optional<double> attention_factor;
  bool alpha_honoured = false;
};

/// The scaling, and the context lengths that go with it; warnings on factors that contradict each
/// other are added to the rope.
Scaling make_scaling(const RopeDict& dict, const ScalingContext& around, ModelRope& rope);

}  // namespace rotary::internal
