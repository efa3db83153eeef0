// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

#include "rotary/rope.h"

#include <string_view>
#include <utility>

#include "rope/cache.h"
#include "rope/gradient_call.h"
#include "rope/kernel.h"
#include "rope/validate.h"
#include "support/message.h"

namespace rotary {
namespace {

/// What a Rope is made of; shared by copies that differ in their threads.
struct Parts {
  Parts(Frequencies f, const HeadLayout& l, const RopeOptions& o)
      : frequencies(std::move(f)),
        layout(l),
        phases(internal::make_phase_table(frequencies, o.precision)),
        cache(phases, o.cache) {
    if (!layout.output_pairing) layout.output_pairing = layout.pairing;
  }

  Frequencies frequencies;
  HeadLayout layout;
  internal::PhaseTable phases;
  internal::CosSinCache cache;
};

}  // namespace

struct Rope::State {
  std::shared_ptr<const Parts> parts;
  RopeOptions options;

  /// The one place where a call is checked and handed to an engine.
  void run(std::string_view function, const Operands& tensors, const Positions& positions,
           internal::Source source, internal::Direction direction, Pairing read,
           Pairing write) const {
    internal::OperandList room;
    const std::span<const Operand> operands =
        internal::check_operands(function, tensors, parts->layout.head_dim, room);
    if (operands.empty()) return;
    internal::check_positions(function, positions, operands, parts->frequencies.axes);
    if (internal::is_empty(operands)) return;
    internal::rotate_on_cpu({.source = source,
                             .direction = direction,
                             .read = read,
                             .write = write,
                             .pairs = parts->phases.pairs,
                             .rotary_offset = parts->layout.rotary_offset,
                             .operands = operands,
                             .positions = positions},
                            options.threads);
  }

  void rotate(std::string_view function, const Operands& tensors, const Positions& positions,
              internal::Direction direction) const {
    const HeadLayout& layout = parts->layout;
    const bool forward = direction == internal::Direction::kForward;
    run(function, tensors, positions, {.phases = &parts->phases, .cache = &parts->cache}, direction,
        forward ? *layout.pairing : *layout.output_pairing,
        forward ? *layout.output_pairing : *layout.pairing);
  }
};

std::string_view name_of(Pairing pairing) noexcept {
  return pairing == Pairing::kHalf ? "half" : "interleaved";
}

Rope::Rope(Frequencies frequencies, const HeadLayout& layout, const RopeOptions& options) {
  internal::check_rope(frequencies, layout);
  internal::check_threads("Rope", options.threads);
  auto parts = std::make_shared<const Parts>(std::move(frequencies), layout, options);
  state_ = std::make_shared<const State>(State{std::move(parts), options});
}

void Rope::rotate(const Operands& tensors, const Positions& positions) const {
  state_->rotate("rotate", tensors, positions, internal::Direction::kForward);
}

void Rope::rotate(const ConstTensorView& in, const TensorView& out,
                  const Positions& positions) const {
  rotate(Operand(in, out), positions);
}

void Rope::unrotate(const Operands& tensors, const Positions& positions) const {
  state_->rotate("unrotate", tensors, positions, internal::Direction::kInverse);
}

void Rope::unrotate(const ConstTensorView& in, const TensorView& out,
                    const Positions& positions) const {
  unrotate(Operand(in, out), positions);
}

void Rope::adjoint(const Operands& tensors, const Positions& positions) const {
  state_->rotate("adjoint", tensors, positions, internal::Direction::kAdjoint);
}

void Rope::adjoint(const ConstTensorView& in, const TensorView& out,
                   const Positions& positions) const {
  adjoint(Operand(in, out), positions);
}

void Rope::shift(const Operands& keys, const Positions& delta) const {
  const Pairing pairing = *layout().output_pairing;
  state_->run("shift", keys, delta, {.phases = &state_->parts->phases, .is_position = false},
              internal::Direction::kForward, pairing, pairing);
}

void rerotate(const Operands& keys, const Rope& from, const Rope& to, const Positions& positions) {
  const HeadLayout& a = from.layout();
  const HeadLayout& b = to.layout();
  const Frequencies& f = from.frequencies();
  const Frequencies& g = to.frequencies();
  if (a.head_dim != b.head_dim || a.rotary_offset != b.rotary_offset || f.pairs != g.pairs ||
      f.axes != g.axes) {
    internal::reject("[rerotate] both ropes must turn the same slice of the same head, got pairs ",
                     f.pairs, " and ", g.pairs, ", axes ", f.axes, " and ", g.axes, ", head_dim ",
                     a.head_dim, " and ", b.head_dim, ", rotary_offset ", a.rotary_offset, " and ",
                     b.rotary_offset);
  }
  to.state_->run("rerotate", keys, positions,
                 {.phases = &to.state_->parts->phases, .divisor = &from.state_->parts->phases},
                 internal::Direction::kForward, *a.output_pairing, *b.output_pairing);
}

void Rope::gradient(std::span<const GradientOperand> tensors, const Positions& positions,
                    const ParameterGradients& parameters) const {
  const Parts& parts = *state_->parts;
  const internal::GradientCall call(tensors, positions, parameters, parts.layout.head_dim,
                                    parts.frequencies);
  if (call.wants_parameters()) {
    const internal::Job forward{.source = {.phases = &parts.phases, .cache = &parts.cache},
                                .direction = internal::Direction::kForward,
                                .read = *parts.layout.pairing,
                                .write = *parts.layout.output_pairing,
                                .pairs = parts.phases.pairs,
                                .rotary_offset = parts.layout.rotary_offset,
                                .operands = call.inputs(),
                                .positions = positions};
    internal::gradient_on_cpu({.forward = forward,
                               .tensors = call.tensors(),
                               .frequencies = parts.frequencies,
                               .parameters = call.parameters()},
                              state_->options.threads);
  }
  // Last, because the gradient of the input may take the place of that of the output.
  state_->rotate("gradient", call.adjoints(), positions, internal::Direction::kAdjoint);
}

Rope Rope::with_threads(Threads threads) const {
  internal::check_threads("with_threads", threads);
  Rope rope = *this;
  RopeOptions options = state_->options;
  options.threads = std::move(threads);
  rope.state_ = std::make_shared<const State>(State{state_->parts, std::move(options)});
  return rope;
}

const Frequencies& Rope::frequencies() const noexcept { return state_->parts->frequencies; }
const HeadLayout& Rope::layout() const noexcept { return state_->parts->layout; }
const RopeOptions& Rope::options() const noexcept { return state_->options; }

}  // namespace rotary
