// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

#include "pytorch/shared/rope_set.h"

#include <vector>

namespace rotary::torch {
namespace {

Rope make_rope(const RopeText& text, const Threads& threads) {
  return {text.frequencies, text.layout, {.precision = text.precision, .threads = threads}};
}

Rope make_reciprocal(const Rope& rope) {
  Frequencies f = rope.frequencies();
  if (f.growth.empty() && f.scale == 1.0) return rope;
  f.scale = 1.0 / f.scale;
  return {with_inverse_growth(std::move(f)), rope.layout(), rope.options()};
}

HeadLayout with_one_pairing(HeadLayout layout, Pairing pairing) {
  layout.pairing = pairing;
  layout.output_pairing = pairing;
  return layout;
}

Rope make_zero_frequency(const Rope& rope) {
  const Frequencies& f = rope.frequencies();
  return {{.pairs = f.pairs, .axes = f.axes, .values = std::vector<double>(f.values.size())},
          with_one_pairing(rope.layout(), *rope.layout().pairing),
          rope.options()};
}

Rope make_at_origin(const Rope& rope, Pairing pairing) {
  Frequencies f = rope.frequencies();
  f.scale = 1.0;
  f.growth_origin = 0.0;
  return {std::move(f), with_one_pairing(rope.layout(), pairing), rope.options()};
}

}  // namespace

RopeSet::RopeSet(std::string_view text, const Threads& threads)
    : text_(text),
      threads_(threads.count),
      one_axis_(from_text(text).one_axis),
      rope_(make_rope(from_text(text), threads)),
      reciprocal_(make_reciprocal(rope_)),
      zero_frequency_(make_zero_frequency(rope_)),
      half_at_origin_(make_at_origin(rope_, Pairing::kHalf)),
      interleaved_at_origin_(make_at_origin(rope_, Pairing::kInterleaved)) {}

void apply(RotationOp op, const RopeSet& ropes, std::span<const Operand> operands,
           const Positions& positions, const Stream& stream) {
  switch (op) {
    case RotationOp::kRotate:
      return ropes.rope().rotate(operands, positions, stream);
    case RotationOp::kAdjoint:
      return ropes.rope().adjoint(operands, positions, stream);
    case RotationOp::kUnrotate:
      return ropes.rope().unrotate(operands, positions, stream);
    case RotationOp::kUnrotateAdjoint:
      return ropes.reciprocal().rotate(operands, positions, stream);
    case RotationOp::kShift:
      return ropes.rope().shift(operands, positions, stream);
    case RotationOp::kShiftAdjoint:
      return ropes.reciprocal().shift(operands, positions, stream);
  }
}

}  // namespace rotary::torch
