// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// The gradients of a Rope, apart from rope.cc: the command `rotary` has none.
#include <cstddef>
#include <cstdint>
#include <span>

#include "rope/dispatch.h"
#include "rope/gradient_call.h"
#include "rope/rope_state.h"
#include "rotary/rope.h"

namespace rotary {

void Rope::gradient(std::span<const GradientOperand> tensors, const Positions& positions,
                    const ParameterGradients& parameters, Stream stream) const {
  const State::Parts& parts = *state_->parts;
  const internal::GradientCall call(tensors, positions, parameters, parts.layout.head_dim,
                                    parts.frequencies);
  const std::span<const Operand> written =
      call.adjoints().empty() ? call.inputs() : call.adjoints();
  internal::check_engine("gradient",
                         state_->params(written, positions, internal::Direction::kAdjoint));
  if (call.wants_parameters()) {
    const internal::RotateParams forward =
        state_->params(call.inputs(), positions, internal::Direction::kForward);
    internal::gradient("gradient",
                       {.forward = forward,
                        .tensors = call.tensors(),
                        .frequencies = parts.frequencies,
                        .parameters = call.parameters()},
                       state_->options.threads, stream);
  }
  // Last, because grad_in may overwrite grad_out.
  state_->rotate("gradient", call.adjoints(), positions, internal::Direction::kAdjoint, stream);
}

std::size_t Rope::gradient_workspace(std::int64_t batch, std::int64_t tokens) const noexcept {
  const Frequencies& f = state_->parts->frequencies;
  return internal::gradient_workspace_on_cuda(f.pairs, f.axes, batch, tokens);
}

}  // namespace rotary
