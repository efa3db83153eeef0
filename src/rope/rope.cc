// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

#include "rotary/rope.h"

#include <string_view>
#include <utility>

#include "rope/cos_sin_call.h"
#include "rope/rope_state.h"
#include "rope/validate.h"
#include "rope/write_order.h"
#include "support/message.h"

namespace rotary {

void internal::check_same_slice(std::string_view function, const Rope& from, const Rope& to) {
  const HeadLayout& a = from.layout();
  const HeadLayout& b = to.layout();
  const Frequencies& f = from.frequencies();
  const Frequencies& g = to.frequencies();
  if (a.head_dim == b.head_dim && a.rotary_offset == b.rotary_offset && f.pairs == g.pairs &&
      f.axes == g.axes) {
    return;
  }
  reject("[", function, "] both ropes must rotate the same slice of the same head, got pairs ",
         f.pairs, " and ", g.pairs, ", axes ", f.axes, " and ", g.axes, ", head_dim ", a.head_dim,
         " and ", b.head_dim, ", rotary_offset ", a.rotary_offset, " and ", b.rotary_offset);
}

std::string_view name_of(Pairing pairing) noexcept {
  return pairing == Pairing::kHalf ? "half" : "interleaved";
}

Rope::Rope(Frequencies frequencies, const HeadLayout& layout, const RopeOptions& options) {
  internal::check_rope(frequencies, layout);
  internal::check_threads("Rope", options.threads);
  const WriteOrder order = internal::resolve_write_order("Rope", options.order);
  auto parts = std::make_shared<const State::Parts>(std::move(frequencies), layout, options);
  state_ = std::make_shared<const State>(State{std::move(parts), options, order});
}

void Rope::rotate(const Operands& tensors, const Positions& positions, Stream stream) const {
  state_->rotate("rotate", tensors, positions, internal::Direction::kForward, stream);
}

void Rope::rotate(const ConstTensorView& in, const TensorView& out, const Positions& positions,
                  Stream stream) const {
  rotate(Operand(in, out), positions, stream);
}

void Rope::unrotate(const Operands& tensors, const Positions& positions, Stream stream) const {
  state_->rotate("unrotate", tensors, positions, internal::Direction::kInverse, stream);
}

void Rope::unrotate(const ConstTensorView& in, const TensorView& out, const Positions& positions,
                    Stream stream) const {
  unrotate(Operand(in, out), positions, stream);
}

void Rope::adjoint(const Operands& tensors, const Positions& positions, Stream stream) const {
  state_->rotate("adjoint", tensors, positions, internal::Direction::kAdjoint, stream);
}

void Rope::adjoint(const ConstTensorView& in, const TensorView& out, const Positions& positions,
                   Stream stream) const {
  adjoint(Operand(in, out), positions, stream);
}

void Rope::shift(const Operands& keys, const Positions& delta, Stream stream) const {
  const Pairing pairing = *layout().output_pairing;
  state_->run("shift", keys, delta, stream, [&](std::span<const Operand> operands) {
    return state_->params(operands, delta, {.phases = &state_->parts->phases, .is_position = false},
                          internal::Direction::kForward, pairing, pairing);
  });
}

void rerotate(const Operands& keys, const Rope& from, const Rope& to, const Positions& positions,
              Stream stream) {
  internal::check_same_slice("rerotate", from, to);
  const internal::AngleSource source{.phases = &to.state_->parts->phases,
                                     .divisor = &from.state_->parts->phases};
  to.state_->run("rerotate", keys, positions, stream, [&](std::span<const Operand> operands) {
    return to.state_->params(operands, positions, source, internal::Direction::kForward,
                             *from.layout().output_pairing, *to.layout().output_pairing);
  });
}

void Rope::cos_sin(const TensorView& cos, const TensorView& sin, const Positions& positions,
                   Stream stream) const {
  const State::Parts& parts = *state_->parts;
  const internal::CosSinCall call(cos, sin, positions, parts.frequencies);
  call.run({.phases = &parts.phases, .cache = &parts.cache}, state_->options.threads, stream);
}

WriteOrder Rope::write_order(const Operands& tensors) const {
  internal::OperandList checked;
  const std::span<const Operand> operands =
      internal::check_operands("write_order", tensors, layout().head_dim, checked);
  if (operands.empty() || operands.front().in.device.type == DeviceType::kCuda) return {};
  const Positions positions = Positions::range();
  return internal::write_order_on_cpu(
      state_->params(operands, positions, internal::Direction::kForward), options().threads);
}

Rope Rope::with_threads(Threads threads) const {
  internal::check_threads("with_threads", threads);
  Rope rope = *this;
  RopeOptions options = state_->options;
  options.threads = std::move(threads);
  rope.state_ =
      std::make_shared<const State>(State{state_->parts, std::move(options), state_->order});
  return rope;
}

Rope Rope::with_order(const WriteOrder& order) const {
  Rope rope = *this;
  RopeOptions options = state_->options;
  options.order = order;
  const WriteOrder resolved = internal::resolve_write_order("with_order", order);
  rope.state_ = std::make_shared<const State>(State{state_->parts, std::move(options), resolved});
  return rope;
}

const Frequencies& Rope::frequencies() const noexcept { return state_->parts->frequencies; }
const HeadLayout& Rope::layout() const noexcept { return state_->parts->layout; }
const RopeOptions& Rope::options() const noexcept { return state_->options; }

}  // namespace rotary
