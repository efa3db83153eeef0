// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

#include "rotary/rope.h"

#include <string_view>
#include <utility>

#include "engine/cache.h"
#include "engine/norm_kernel.h"
#include "rope/cos_sin_call.h"
#include "rope/dispatch.h"
#include "rope/gradient_call.h"
#include "rope/norm_call.h"
#include "rope/validate.h"
#include "rope/write_order.h"
#include "support/message.h"

namespace rotary {

struct Rope::State {
  /// The parts of a Rope that copies with other threads share.
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

  std::shared_ptr<const Parts> parts;
  RopeOptions options;
  WriteOrder order;  // options.order, completed from the environment

  internal::RotateParams params(std::span<const Operand> operands, const Positions& positions,
                                const internal::AngleSource& source, internal::Direction direction,
                                Pairing read, Pairing write) const {
    return {.source = source,
            .direction = direction,
            .read = read,
            .write = write,
            .pairs = parts->phases.pairs,
            .rotary_offset = parts->layout.rotary_offset,
            .operands = operands,
            .positions = positions,
            .order = order};
  }

  /// Parameters of a rotation at positions: forward, inverse or adjoint.
  internal::RotateParams params(std::span<const Operand> operands, const Positions& positions,
                                internal::Direction direction) const {
    const Pairing first = *parts->layout.pairing;
    const Pairing second = *parts->layout.output_pairing;
    const bool forward = direction == internal::Direction::kForward;
    return params(operands, positions, {.phases = &parts->phases, .cache = &parts->cache},
                  direction, forward ? first : second, forward ? second : first);
  }

  /// Checks operands and positions of a call, then runs make_params(operands) on the engine.
  template <typename MakeParams>
  void run(std::string_view function, const Operands& tensors, const Positions& positions,
           const Stream& stream, const MakeParams& make_params) const {
    internal::OperandList checked;
    const std::span<const Operand> operands =
        internal::check_operands(function, tensors, parts->layout.head_dim, checked);
    if (operands.empty()) return;
    internal::check_positions(function, positions, operands, parts->frequencies.axes);
    if (internal::is_empty(operands)) return;
    internal::rotate(function, make_params(operands), options.threads, stream);
  }

  void rotate(std::string_view function, const Operands& tensors, const Positions& positions,
              internal::Direction direction, const Stream& stream) const {
    run(function, tensors, positions, stream,
        [&](std::span<const Operand> operands) { return params(operands, positions, direction); });
  }
};

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
  const HeadLayout& a = from.layout();
  const HeadLayout& b = to.layout();
  const Frequencies& f = from.frequencies();
  const Frequencies& g = to.frequencies();
  if (a.head_dim != b.head_dim || a.rotary_offset != b.rotary_offset || f.pairs != g.pairs ||
      f.axes != g.axes) {
    internal::reject(
        "[rerotate] both ropes must rotate the same slice of the same head, got pairs ", f.pairs,
        " and ", g.pairs, ", axes ", f.axes, " and ", g.axes, ", head_dim ", a.head_dim, " and ",
        b.head_dim, ", rotary_offset ", a.rotary_offset, " and ", b.rotary_offset);
  }
  const internal::AngleSource source{.phases = &to.state_->parts->phases,
                                     .divisor = &from.state_->parts->phases};
  to.state_->run("rerotate", keys, positions, stream, [&](std::span<const Operand> operands) {
    return to.state_->params(operands, positions, source, internal::Direction::kForward,
                             *a.output_pairing, *b.output_pairing);
  });
}

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
