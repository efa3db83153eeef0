// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// The option --positions of `rotary rotate`: a range or a file.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "console/command.h"
#include "rotary/io.h"
#include "rotary/positions.h"
#include "tools/arguments.h"

namespace rotary::cli {

class PositionsArgument {
 public:
  /// A range (arguments.h), or the name of a .npy or .safetensors file of shape [tokens],
  /// [axes, tokens] or [axes, batch, tokens]. Throws UsageError for other text.
  explicit PositionsArgument(const std::string& text);

  /// Throws std::invalid_argument if the positions do not match the tokens and axes. One-axis
  /// positions match a rope of several axes only if the first axis is time: the tokens are then
  /// text, at the same position on every axis.
  void check(std::int64_t tokens, const std::vector<std::string>& axes);

  /// After check(): true if one axis was given for a rope of several.
  bool same_on_all_axes() const noexcept { return same_on_all_axes_; }

  /// Largest position + 1, at least 1.
  std::int64_t context(std::int64_t tokens) const;

  /// Positions of the tokens first .. first+count-1: a view of this object.
  Positions slice(std::int64_t first, std::int64_t count) const;

 private:
  bool is_file_ = false;
  PositionRange range_;
  Tensor ids_;
  bool same_on_all_axes_ = false;
};

/// True for names that end in .npy or .safetensors.
bool is_tensor_file(const std::string& name);

}  // namespace rotary::cli
