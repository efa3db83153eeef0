// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// The rope of a node: its attribute `rope`, as text.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "rotary/model.h"
#include "rotary/rope.h"

namespace rotary::onnx {

/// One object of JSON, in one of two forms:
/// - a rope of `rotary inspect --json`: "recipe", "head_dim", "pairing", "axes", ... Its
///   frequencies may depend on the context of a call; "context_in_use" chooses one for all calls.
/// - the numbers themselves: "frequencies" (a flat list [pairs x axes]), "head_dim", "pairing", and
///   where they are not the default "axes" (their number), "output_pairing", "rotary_offset",
///   "scale", "growth" and "growth_origin".
/// Both may have "precision" ("reference"), and "inverse_growth": true for keys of xPos.
class RopeAttribute {
 public:
  /// Throws std::invalid_argument or IoError for another text.
  explicit RopeAttribute(std::string_view text);

  /// Whether the rope is another one for other contexts.
  bool depends_on_context() const;
  /// `context`: positions in use; without meaning unless depends_on_context().
  Rope make_rope(std::int64_t context) const;
  std::int64_t head_dim() const { return layout_.head_dim; }
  std::int64_t axes() const { return axes_; }

 private:
  std::optional<ModelRope> model_{};
  Frequencies frequencies_{};  // unless there is a model
  HeadLayout layout_{};
  std::int64_t axes_ = 1;
  std::int64_t context_in_use_ = 0;
  Precision precision_ = Precision::kExact;
  bool inverse_growth_ = false;
};

}  // namespace rotary::onnx
