// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

#include "rotary/rope.h"

#include <string_view>
#include <utility>

#include "rope/kernel.h"
#include "rope/validate.h"

namespace rotary {

std::string_view name_of(Pairing pairing) noexcept {
  return pairing == Pairing::kHalf ? "half" : "interleaved";
}

struct Rope::State {
  Frequencies frequencies;
  HeadLayout layout;
  internal::PhaseTable phases;

  /// The one place where a call is checked and handed to an engine.
  void run(std::string_view function, internal::Direction direction, const ConstTensorView& in,
           const TensorView& out, const Positions& positions) const {
    const ConstTensorView from = internal::as_heads(function, in, layout.head_dim);
    const TensorView to = internal::as_heads(function, out, layout.head_dim);
    internal::check_output(function, from, to);
    internal::check_positions(function, positions, from, frequencies.axes);
    if (to.num_elements() == 0) return;
    const bool forward = direction == internal::Direction::kForward;
    internal::rotate_scalar({.phases = phases,
                             .direction = direction,
                             .read = forward ? *layout.pairing : *layout.output_pairing,
                             .write = forward ? *layout.output_pairing : *layout.pairing,
                             .rotary_offset = layout.rotary_offset,
                             .in = from,
                             .out = to,
                             .positions = positions});
  }
};

Rope::Rope(Frequencies frequencies, const HeadLayout& layout, Precision precision) {
  internal::check_rope(frequencies, layout);
  HeadLayout complete = layout;
  if (!complete.output_pairing) complete.output_pairing = complete.pairing;
  internal::PhaseTable phases = internal::make_phase_table(frequencies, precision);
  state_ =
      std::make_shared<const State>(State{std::move(frequencies), complete, std::move(phases)});
}

void Rope::rotate(const TensorView& x, const Positions& positions) const {
  state_->run("rotate", internal::Direction::kForward, x, x, positions);
}

void Rope::rotate(const ConstTensorView& in, const TensorView& out,
                  const Positions& positions) const {
  state_->run("rotate", internal::Direction::kForward, in, out, positions);
}

void Rope::unrotate(const TensorView& x, const Positions& positions) const {
  state_->run("unrotate", internal::Direction::kInverse, x, x, positions);
}

void Rope::unrotate(const ConstTensorView& in, const TensorView& out,
                    const Positions& positions) const {
  state_->run("unrotate", internal::Direction::kInverse, in, out, positions);
}

void Rope::adjoint(const TensorView& x, const Positions& positions) const {
  state_->run("adjoint", internal::Direction::kAdjoint, x, x, positions);
}

void Rope::adjoint(const ConstTensorView& in, const TensorView& out,
                   const Positions& positions) const {
  state_->run("adjoint", internal::Direction::kAdjoint, in, out, positions);
}

const Frequencies& Rope::frequencies() const noexcept { return state_->frequencies; }
const HeadLayout& Rope::layout() const noexcept { return state_->layout; }
Precision Rope::precision() const noexcept { return state_->phases.precision; }

}  // namespace rotary
