// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// From positions to the complex numbers that pairs are multiplied by: the double-checked slow form
// that defines the result. Faster engines must agree with it bit for bit.

#include <bit>
#include <cmath>
#include <cstring>

#include "rope/kernel.h"

namespace rotary::internal {
namespace {

template <typename Value>
Value load(const ConstTensorView& view, std::int64_t element) noexcept {
  Value value;
  std::memcpy(
      &value,
      static_cast<const char*>(view.data) + element * static_cast<std::int64_t>(sizeof(Value)),
      sizeof(Value));
  return value;
}

Position from_integer(std::int64_t value) noexcept {
  return {.integer = value, .real = static_cast<double>(value), .is_real = false};
}

Position from_real(double value) noexcept { return {.integer = 0, .real = value, .is_real = true}; }

/// Angle in kExact: the sum over axes wraps by itself.
template <typename T>
CosSin<T> exact_cos_sin(const PhaseTable& table, std::int64_t pair, const Position* x) noexcept {
  std::uint64_t phase = 0;
  for (std::int64_t a = 0; a < table.axes; ++a) {
    const Turns turns = table.turns[static_cast<std::size_t>(pair * table.axes + a)];
    phase += x[a].is_real ? phase_at(x[a].real, turns) : phase_at(x[a].integer, turns);
  }
  return cos_sin<T>(phase);
}

/// Angle in kReference: a float32 product per axis, as transformers forms it.
template <typename T>
CosSin<T> reference_cos_sin(const PhaseTable& table, std::int64_t pair,
                            const Position* x) noexcept {
  float angle = 0.0f;
  for (std::int64_t a = 0; a < table.axes; ++a) {
    const float f = table.radians[static_cast<std::size_t>(pair * table.axes + a)];
    if (f != 0.0f) angle += f * static_cast<float>(x[a].real);
  }
  // Through double, so that cos and sin of the float are rounded correctly on every platform.
  return {static_cast<T>(static_cast<float>(std::cos(static_cast<double>(angle)))),
          static_cast<T>(static_cast<float>(std::sin(static_cast<double>(angle))))};
}

double growth_at(const PhaseTable& table, std::int64_t pair, const Position* x) noexcept {
  double exponent = 0.0;
  for (std::int64_t a = 0; a < table.axes; ++a) {
    exponent += table.growth[static_cast<std::size_t>(pair * table.axes + a)] *
                (x[a].real - table.growth_origin);
  }
  return std::exp(exponent);
}

}  // namespace

Position PositionReader::at(std::int64_t axis, std::int64_t batch, std::int64_t token) noexcept {
  switch (positions_.kind()) {
    case Positions::Kind::kRange: {
      const auto first = positions_.first();
      const std::int64_t start =
          first.empty() ? positions_.start() : first[static_cast<std::size_t>(batch)];
      return from_integer(start + token);
    }
    case Positions::Kind::kPacked: {
      const auto boundaries = positions_.boundaries();
      if (token < boundaries[sequence_]) sequence_ = 0;
      while (token >= boundaries[sequence_ + 1]) ++sequence_;
      const auto first = positions_.first();
      const std::int64_t start = first.empty() ? 0 : first[sequence_];
      return from_integer(start + (token - boundaries[sequence_]));
    }
    case Positions::Kind::kIds:
      break;
  }
  const ConstTensorView& view = positions_.view();
  const std::int64_t a = positions_.same_on_all_axes() ? 0 : axis;
  const std::int64_t element =
      a * view.strides[0] + batch * view.strides[1] + token * view.strides[2];
  switch (view.dtype) {
    case DType::kInt32:
      return from_integer(load<std::int32_t>(view, element));
    case DType::kInt64:
      return from_integer(load<std::int64_t>(view, element));
    case DType::kFloat32:
      return from_real(static_cast<double>(load<float>(view, element)));
    default:
      return from_real(load<double>(view, element));
  }
}

template <typename T>
void make_rotations(const Job& job, PositionReader& reader, std::int64_t batch, std::int64_t token,
                    CosSin<T>* z) noexcept {
  const PhaseTable& table = job.phases;
  constexpr std::int64_t kAxes = 16;
  Position x[kAxes];
  for (std::int64_t a = 0; a < table.axes; ++a) x[a] = reader.at(a, batch, token);
  for (std::int64_t i = 0; i < table.pairs; ++i) {
    CosSin<T> w = table.precision == Precision::kExact ? exact_cos_sin<T>(table, i, x)
                                                       : reference_cos_sin<T>(table, i, x);
    double size = table.scale;
    if (!table.growth.empty()) size *= growth_at(table, i, x);
    if (job.direction == Direction::kInverse) size = 1.0 / size;
    if (size != 1.0) w = {w.cos * static_cast<T>(size), w.sin * static_cast<T>(size)};
    if (job.direction != Direction::kForward) w.sin = -w.sin;
    z[i] = w;
  }
}

template void make_rotations<float>(const Job&, PositionReader&, std::int64_t, std::int64_t,
                                    CosSin<float>*) noexcept;
template void make_rotations<double>(const Job&, PositionReader&, std::int64_t, std::int64_t,
                                     CosSin<double>*) noexcept;

PhaseTable make_phase_table(const Frequencies& frequencies, Precision precision) {
  PhaseTable table{.precision = precision,
                   .pairs = frequencies.pairs,
                   .axes = frequencies.axes,
                   .scale = frequencies.scale,
                   .turns = {},
                   .radians = {},
                   .growth = frequencies.growth,
                   .growth_origin = frequencies.growth_origin};
  for (const double f : frequencies.values) {
    if (precision == Precision::kExact) {
      table.turns.push_back(to_turns(f));
    } else {
      table.radians.push_back(static_cast<float>(f));
    }
  }
  return table;
}

}  // namespace rotary::internal
