// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// The positions of `rotary rotate`: a range that was typed, or a file.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "rotary/io.h"
#include "rotary/positions.h"
#include "tools/range.h"

namespace rotary::cli {

class TokenPositions {
 public:
  /// A range (range.h), or the name of a .npy or .safetensors file of [tokens], [axes, tokens] or
  /// [axes, batch, tokens]. Throws UsageError for text that is neither.
  explicit TokenPositions(const std::string& text);

  /// Throws std::invalid_argument where these positions do not fit. One-axis positions serve a rope
  /// of several axes only if the first is time: then they are text tokens, at the same position on
  /// every axis.
  void check(std::int64_t tokens, const std::vector<std::string>& axes);

  /// True after check(): one axis given, and the same position meant on all.
  bool same_on_all_axes() const noexcept { return same_on_all_axes_; }

  /// Largest position + 1, at least 1.
  std::int64_t context(std::int64_t tokens) const;

  /// Of the tokens first .. first+count-1. A view of this object.
  Positions slice(std::int64_t first, std::int64_t count) const;

 private:
  bool is_file_ = false;
  Range range_;
  Tensor ids_;
  bool same_on_all_axes_ = false;
};

/// True for names that end in .npy or .safetensors.
bool names_tensor_file(const std::string& name);

}  // namespace rotary::cli
