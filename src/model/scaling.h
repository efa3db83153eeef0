// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// The rope dictionary of a config (rope_parameters, rope_scaling), and the Scaling it describes.
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

/// The dictionary of one rope: from the file, else the family's default.
class RopeDict {
 public:
  /// `dict` is null if there is no dictionary. `assumed`: it is the family's default.
  RopeDict(const Json* dict, bool assumed, const Lookup& lookup);

  /// "default", "linear", ...: the current name of the type. The constructor throws for unknown
  /// types.
  const std::string& type() const noexcept { return type_; }

  /// True even if the value is null.
  bool has(std::string_view key) const { return dict_ != nullptr && dict_->contains(key); }
  /// Null if absent or null in the dictionary.
  const Json* find(std::string_view key) const;
  std::optional<double> number(std::string_view key) const;
  /// As Python's `x or default`: zero counts as absent.
  std::optional<double> nonzero(std::string_view key) const;
  double required(std::string_view key) const;
  /// False if absent.
  bool flag(std::string_view key) const;
  bool given() const noexcept { return dict_ != nullptr && !assumed_; }

  /// Reports unknown keys, with the nearest known key, and keys that this type does not use.
  void report_ignored_keys(ModelRope& rope) const;

  /// A line for `assumed` if the dictionary is the family's default; empty otherwise.
  std::string assumed_line() const;

  const std::string& source() const noexcept { return source_; }

 private:
  const Json* dict_;
  bool assumed_;
  std::string source_;
  std::string model_type_;
  std::string type_;
};

/// Values from outside the dictionary.
struct ScalingContext {
  std::optional<std::int64_t> max_position_embeddings;
  std::optional<std::int64_t> top_level_original;
  std::optional<std::int64_t> default_original;  // of the family
  double partial = 1.0;
  SoftmaxCorrection softmax_correction = SoftmaxCorrection::kNone;
  /// The family's, for yarn without one.
  std::optional<double> attention_factor;
  bool alpha_honoured = false;
  bool dynamic_original_honoured = false;
};

/// The scaling. Sets the context lengths of the rope, and adds warnings on contradicting factors.
Scaling make_scaling(const RopeDict& dict, const ScalingContext& context, ModelRope& rope);

}  // namespace rotary::internal
