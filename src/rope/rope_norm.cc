// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// Norm and rotation of a Rope and of a TableRope, apart from rope.cc: the command `rotary` has
// none.
#include <cstddef>
#include <span>

#include "engine/norm_kernel.h"
#include "rope/dispatch.h"
#include "rope/norm_call.h"
#include "rope/norm_gradient_call.h"
#include "rope/rope_state.h"
#include "rope/table_call.h"
#include "rope/validate.h"
#include "rotary/rope.h"
#include "rotary/table.h"
#include "support/message.h"

namespace rotary {
namespace {

/// `adjoint` rotates the gradients of the results back.
internal::NormParams params_of(const internal::NormGradientCall& call, const HeadNorm& norm,
                               const internal::RotateParams& adjoint) {
  return {.rotation = adjoint,
          .tables = call.tables().list(),
          .device_tables = call.tables().device_list(),
          .adds_one = norm.kind == NormKind::kRmsOnePlus,
          .norm = internal::scalars_of(norm),
          .rounding = norm.rounding};
}

void run(const internal::NormGradientCall& call, const HeadNorm& norm,
         const internal::RotateParams& adjoint, std::span<std::byte> workspace,
         const Threads& threads, const Stream& stream) {
  const internal::NormParams params = params_of(call, norm, adjoint);
  if (internal::is_on_cuda(adjoint)) {
    internal::check_on_cuda("norm_gradient", adjoint);
    internal::check_fused_on_cuda("norm_gradient", adjoint);
    call.check_workspace(workspace);
    return internal::norm_gradient_on_cuda("norm_gradient", params, call.tensors(), workspace,
                                           stream);
  }
  if (internal::is_empty(call.gradients())) return call.clear();
  internal::norm_gradient_on_cpu(params, call.tensors(), threads);
}

void run(const internal::NormCall& call, const HeadNorm& norm,
         const internal::RotateParams& rotation, const Threads& threads, const Stream& stream) {
  if (norm.kind == NormKind::kNone) {
    return internal::rotate("norm_rotate", rotation, threads, stream);
  }
  internal::norm_rotate("norm_rotate", call.params(rotation), threads, stream);
}

}  // namespace

void Rope::norm_rotate(std::span<const NormOperand> tensors, const HeadNorm& norm,
                       const Positions& positions, Stream stream) const {
  const internal::NormCall call(tensors, norm, layout().head_dim);
  if (call.operands().empty()) return;
  internal::check_positions("norm_rotate", positions, call.operands(), frequencies().axes);
  if (internal::is_empty(call.operands())) return;
  run(call, norm, state_->params(call.operands(), positions, call.direction()), options().threads,
      stream);
}

void Rope::norm_gradient(std::span<const NormGradientOperand> tensors, const HeadNorm& norm,
                         const Positions& positions, std::span<std::byte> workspace,
                         Stream stream) const {
  const internal::NormGradientCall call(tensors, norm, layout().head_dim);
  if (tensors.empty()) return;
  internal::check_positions("norm_gradient", positions, call.gradients(), frequencies().axes);
  call.check_apart(positions);
  run(call, norm, state_->params(call.gradients(), positions, internal::Direction::kAdjoint),
      workspace, options().threads, stream);
}

std::size_t Rope::norm_gradient_workspace(std::span<const NormGradientOperand> tensors,
                                          const HeadNorm& norm) const {
  return internal::NormGradientCall(tensors, norm, layout().head_dim).workspace();
}

void TableRope::norm_rotate(std::span<const NormOperand> tensors, const HeadNorm& norm,
                            const Positions& positions, Stream stream) const {
  const internal::NormCall call(tensors, norm, layout_.head_dim);
  if (call.operands().empty()) return;
  const internal::TableCall by{table_, layout_, width_, pairs_, order_};
  by.check("norm_rotate", call.operands(), positions, false);
  if (internal::is_empty(call.operands())) return;
  run(call, norm, by.params(call.operands(), positions, call.direction()), threads_, stream);
}

void TableRope::norm_rotate(std::span<const NormOperand> tensors, const HeadNorm& norm,
                            Stream stream) const {
  const internal::NormCall call(tensors, norm, layout_.head_dim);
  if (call.operands().empty()) return;
  const internal::TableCall by{table_, layout_, width_, pairs_, order_};
  const Positions rows = Positions::range();
  by.check("norm_rotate", call.operands(), rows, true);
  if (internal::is_empty(call.operands())) return;
  run(call, norm, by.params(call.operands(), rows, call.direction()), threads_, stream);
}

void TableRope::norm_gradient(std::span<const NormGradientOperand> tensors, const HeadNorm& norm,
                              const Positions& positions, std::span<std::byte> workspace,
                              Stream stream) const {
  const internal::NormGradientCall call(tensors, norm, layout_.head_dim);
  if (tensors.empty()) return;
  const internal::TableCall by{table_, layout_, width_, pairs_, order_};
  by.check("norm_gradient", call.gradients(), positions, false);
  call.check_apart(positions);
  call.check_apart(table_);
  run(call, norm, by.params(call.gradients(), positions, internal::Direction::kAdjoint), workspace,
      threads_, stream);
}

void TableRope::norm_gradient(std::span<const NormGradientOperand> tensors, const HeadNorm& norm,
                              std::span<std::byte> workspace, Stream stream) const {
  const internal::NormGradientCall call(tensors, norm, layout_.head_dim);
  if (tensors.empty()) return;
  const internal::TableCall by{table_, layout_, width_, pairs_, order_};
  const Positions rows = Positions::range();
  by.check("norm_gradient", call.gradients(), rows, true);
  call.check_apart(table_);
  run(call, norm, by.params(call.gradients(), rows, internal::Direction::kAdjoint), workspace,
      threads_, stream);
}

std::size_t TableRope::norm_gradient_workspace(std::span<const NormGradientOperand> tensors,
                                               const HeadNorm& norm) const {
  return internal::NormGradientCall(tensors, norm, layout_.head_dim).workspace();
}

}  // namespace rotary
