// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// What a Rope holds, for the files that define its members.
#pragma once

#include <memory>
#include <span>
#include <string_view>
#include <utility>

#include "engine/cache.h"
#include "rope/dispatch.h"
#include "rope/validate.h"
#include "rope/write_order.h"
#include "rotary/rope.h"

namespace rotary {

namespace internal {

/// Throws unless keys of one rope can be changed to those of the other.
void check_same_slice(std::string_view function, const Rope& from, const Rope& to);

}  // namespace internal

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

}  // namespace rotary
