// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// The norm and rotation of a Rope, apart from rope.cc: the command `rotary` has none.
#include <span>

#include "engine/norm_kernel.h"
#include "rope/norm_call.h"
#include "rope/rope_state.h"
#include "rope/validate.h"
#include "rotary/rope.h"

namespace rotary {

void Rope::norm_rotate(std::span<const NormOperand> tensors, const HeadNorm& norm,
                       const Positions& positions) const {
  const internal::NormCall call(tensors, norm, layout().head_dim);
  if (call.operands().empty()) return;
  internal::check_positions("norm_rotate", positions, call.operands(), frequencies().axes);
  if (internal::is_empty(call.operands())) return;
  const internal::RotateParams rotation =
      state_->params(call.operands(), positions, internal::Direction::kForward);
  if (norm.kind == NormKind::kNone) return internal::rotate_on_cpu(rotation, options().threads);
  internal::norm_rotate_on_cpu({.rotation = rotation,
                                .factors = call.factors(),
                                .eps = static_cast<float>(norm.eps),
                                .rounding = norm.rounding,
                                .sum_lanes = norm.sum_lanes},
                               options().threads);
}

}  // namespace rotary
