// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// Norm and rotation of a Rope and of a TableRope, apart from rope.cc: the command `rotary` has
// none.
#include <span>

#include "engine/norm_kernel.h"
#include "rope/norm_call.h"
#include "rope/norm_gradient_call.h"
#include "rope/rope_state.h"
#include "rope/table_call.h"
#include "rope/validate.h"
#include "rotary/rope.h"
#include "rotary/table.h"

namespace rotary {
namespace {

/// `adjoint` rotates the gradients of the results back.
void run(const internal::NormGradientCall& call, const HeadNorm& norm,
         const internal::RotateParams& adjoint, const Threads& threads) {
  internal::norm_gradient_on_cpu({.rotation = adjoint,
                                  .tables = call.tables().list(),
                                  .norm = internal::scalars_of(norm),
                                  .rounding = norm.rounding},
                                 call.tensors(), threads);
}

void run(const internal::NormCall& call, const HeadNorm& norm,
         const internal::RotateParams& rotation, const Threads& threads) {
  if (norm.kind == NormKind::kNone) return internal::rotate_on_cpu(rotation, threads);
  internal::norm_rotate_on_cpu(call.params(rotation), threads);
}

}  // namespace

void Rope::norm_rotate(std::span<const NormOperand> tensors, const HeadNorm& norm,
                       const Positions& positions) const {
  const internal::NormCall call(tensors, norm, layout().head_dim);
  if (call.operands().empty()) return;
  internal::check_positions("norm_rotate", positions, call.operands(), frequencies().axes);
  if (internal::is_empty(call.operands())) return;
  run(call, norm, state_->params(call.operands(), positions, call.direction()), options().threads);
}

void Rope::norm_gradient(std::span<const NormGradientOperand> tensors, const HeadNorm& norm,
                         const Positions& positions) const {
  const internal::NormGradientCall call(tensors, norm, layout().head_dim);
  if (tensors.empty()) return;
  internal::check_positions("norm_gradient", positions, call.gradients(), frequencies().axes);
  call.check_apart(positions);
  if (internal::is_empty(call.gradients())) return call.clear();
  run(call, norm, state_->params(call.gradients(), positions, internal::Direction::kAdjoint),
      options().threads);
}

void TableRope::norm_rotate(std::span<const NormOperand> tensors, const HeadNorm& norm,
                            const Positions& positions) const {
  const internal::NormCall call(tensors, norm, layout_.head_dim);
  if (call.operands().empty()) return;
  const internal::TableCall by{table_, layout_, width_, pairs_, order_};
  by.check("norm_rotate", call.operands(), positions, false);
  if (internal::is_empty(call.operands())) return;
  run(call, norm, by.params(call.operands(), positions, call.direction()), threads_);
}

void TableRope::norm_rotate(std::span<const NormOperand> tensors, const HeadNorm& norm) const {
  const internal::NormCall call(tensors, norm, layout_.head_dim);
  if (call.operands().empty()) return;
  const internal::TableCall by{table_, layout_, width_, pairs_, order_};
  const Positions rows = Positions::range();
  by.check("norm_rotate", call.operands(), rows, true);
  if (internal::is_empty(call.operands())) return;
  run(call, norm, by.params(call.operands(), rows, call.direction()), threads_);
}

void TableRope::norm_gradient(std::span<const NormGradientOperand> tensors, const HeadNorm& norm,
                              const Positions& positions) const {
  const internal::NormGradientCall call(tensors, norm, layout_.head_dim);
  if (tensors.empty()) return;
  const internal::TableCall by{table_, layout_, width_, pairs_, order_};
  by.check("norm_gradient", call.gradients(), positions, false);
  call.check_apart(positions);
  call.check_apart(table_);
  if (internal::is_empty(call.gradients())) return call.clear();
  run(call, norm, by.params(call.gradients(), positions, internal::Direction::kAdjoint), threads_);
}

void TableRope::norm_gradient(std::span<const NormGradientOperand> tensors,
                              const HeadNorm& norm) const {
  const internal::NormGradientCall call(tensors, norm, layout_.head_dim);
  if (tensors.empty()) return;
  const internal::TableCall by{table_, layout_, width_, pairs_, order_};
  const Positions rows = Positions::range();
  by.check("norm_gradient", call.gradients(), rows, true);
  call.check_apart(table_);
  if (internal::is_empty(call.gradients())) return call.clear();
  run(call, norm, by.params(call.gradients(), rows, internal::Direction::kAdjoint), threads_);
}

}  // namespace rotary
