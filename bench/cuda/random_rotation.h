// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// Random rotations: element types, pairings, slices, strides, operands, axes, positions,
// directions, tables.
#pragma once

#include <cmath>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "engine/kernel.h"
#include "random_data.h"

namespace random_rotations {

template <typename T>
std::span<const T> make_list(Arena& arena, std::int64_t count, const auto& value) {
  auto* to = reinterpret_cast<T*>(arena.take(count * static_cast<std::int64_t>(sizeof(T))));
  for (std::int64_t i = 0; i < count; ++i) to[i] = static_cast<T>(value(i));
  return {to, static_cast<std::size_t>(count)};
}

inline std::int64_t draw_position(Draw& draw) {
  switch (draw.upto(4)) {
    case 0:
      return draw.upto(100);
    case 1:
      return -draw.upto(100'000);
    case 2:
      return 1'000'000'000 + draw.upto(1000);
    case 3:
      return (std::int64_t{1} << 31) + draw.upto(9);
    default:
      return draw.upto(131'072);
  }
}

template <typename T>
ConstTensorView view_of(std::span<const T> list, DType type) {
  return ConstTensorView::contiguous(list.data(), type, {static_cast<std::int64_t>(list.size())});
}

/// Start position of each batch row, with stride 2.
inline ConstTensorView make_first(Draw& draw, Arena& arena, std::int64_t batch) {
  const auto at = [&draw](std::int64_t) { return draw_position(draw); };
  ConstTensorView view = view_of(make_list<std::int64_t>(arena, 2 * batch, at), DType::kInt64);
  if (draw.chance(50)) {
    const auto small = [&draw](std::int64_t) { return draw.upto(1 << 20); };
    view = view_of(make_list<std::int32_t>(arena, 2 * batch, small), DType::kInt32);
  }
  view.shape[0] = batch;
  view.strides[0] = 2;
  return view;
}

inline Positions make_positions(Draw& draw, Arena& arena, std::int64_t axes, std::int64_t batch,
                                std::int64_t tokens) {
  const auto at = [&draw](std::int64_t) { return draw_position(draw); };
  const int kind = static_cast<int>(draw.upto(axes > 1 ? 9 : 7));
  Positions made = Positions::range(draw_position(draw));
  if (kind == 1) made = Positions::range(make_first(draw, arena, batch));
  if (kind == 2) made = Positions::at(draw_position(draw));
  if (kind == 3 || kind == 4) {
    std::vector<std::int64_t> cuts = {0};
    while (cuts.back() < tokens) cuts.push_back(std::min(tokens, cuts.back() + draw.upto(7)));
    const auto n = static_cast<std::int64_t>(cuts.size());
    const auto cut = [&cuts](std::int64_t i) { return cuts[static_cast<std::size_t>(i)]; };
    if (draw.chance(50)) {
      const auto small = [&draw](std::int64_t) { return draw.upto(1 << 30) - 1000; };
      const auto list = view_of(make_list<std::int32_t>(arena, n, cut), DType::kInt32);
      const auto first = view_of(make_list<std::int32_t>(arena, n - 1, small), DType::kInt32);
      made = kind == 3 ? Positions::packed(list, first) : Positions::packed(list);
    } else {
      const auto list = make_list<std::int64_t>(arena, n, cut);
      const auto first = make_list<std::int64_t>(arena, n - 1, at);
      made = kind == 3 ? Positions::packed(list, first) : Positions::packed(list);
    }
  }
  if (kind < 5) return axes > 1 ? made.on_all_axes() : made;
  const bool all_axes = kind < 8 && axes > 1;
  const std::int64_t given = all_axes ? 1 : axes;
  const DType type = draw.of({DType::kInt32, DType::kInt64, DType::kFloat32, DType::kFloat64});
  ConstTensorView view{nullptr, type, 3, {given, batch, tokens, 0}, {batch * tokens, tokens, 1, 0},
                       {}};
  const std::int64_t count = given * batch * tokens;
  const auto small = [&draw](std::int64_t) { return draw.upto(1 << 30) - 1000; };
  const auto real = [&draw](std::int64_t) { return draw.real() * 5e4; };
  if (type == DType::kInt32) view.data = make_list<std::int32_t>(arena, count, small).data();
  if (type == DType::kInt64) view.data = make_list<std::int64_t>(arena, count, at).data();
  if (type == DType::kFloat32) view.data = make_list<float>(arena, count, real).data();
  if (type == DType::kFloat64) view.data = make_list<double>(arena, count, real).data();
  made = Positions::ids(view);
  return all_axes ? made.on_all_axes() : made;
}

inline Frequencies make_matrix(Draw& draw, std::int64_t pairs, std::int64_t axes, bool grows) {
  Frequencies f{.pairs = pairs, .axes = axes};
  const bool one_hot = draw.chance(60);
  for (std::int64_t i = 0; i < pairs; ++i) {
    for (std::int64_t a = 0; a < axes; ++a) {
      const double value = std::pow(1e4, -static_cast<double>(i) / static_cast<double>(pairs));
      f.values.push_back(one_hot && a != i % axes ? 0.0 : (draw.chance(10) ? -value : value));
      if (grows) f.growth.push_back(1e-10 * draw.real());
    }
  }
  if (draw.chance(30)) f.scale = 1.1386;
  if (grows) f.growth_origin = 7.0;
  return f;
}

/// A random rotation, with everything it points to.
struct RandomRotation {
  /// Larger than the caches, which selects other kernel configurations.
  static constexpr std::int64_t kLargeBytes = std::int64_t{34} << 20;
  bool large;
  std::int64_t pairs, offset, head_dim, batch, tokens, axes;
  std::string kind = "exact";  // of angles: decides which tolerance applies
  std::vector<Operand> operands;
  Frequencies matrix;
  PhaseTable phases, divisor;
  CosSinTable table;
  AngleSource source;
  Positions positions = Positions::range();
  Direction direction;
  Pairing read, write;

  RandomRotation(Draw& draw, Arena& arena)
      : large(draw.chance(4)),
        pairs(large ? draw.of<std::int64_t>({16, 24, 32, 64, 64, 128})
                    : draw.of<std::int64_t>({1, 3, 4, 8, 16, 20, 32, 64, 64, 128, 130, 300, 600})),
        offset(draw.of<std::int64_t>({0, 0, 0, 8, 5})),
        head_dim(offset + 2 * pairs + draw.of<std::int64_t>({0, 0, 8, 3})),
        batch(1 + draw.upto(2)),
        tokens(pairs <= 32 && draw.chance(40) ? 300 + draw.upto(300) : 1 + draw.upto(20)),
        axes(large ? draw.of<std::int64_t>({1, 3}) : draw.of<std::int64_t>({1, 1, 1, 2, 3, 16})),
        direction(draw.of({Direction::kForward, Direction::kInverse, Direction::kAdjoint})),
        read(draw.of({Pairing::kHalf, Pairing::kInterleaved})),
        write(draw.chance(75) ? read : draw.of({Pairing::kHalf, Pairing::kInterleaved})) {
    draw_operands(draw, arena);
    if (draw.chance(15)) {
      draw_table(draw, arena);
    } else {
      draw_phases(draw, arena);
    }
  }

  RotateParams params() const {
    return {.source = source,
            .direction = direction,
            .read = read,
            .write = write,
            .pairs = pairs,
            .rotary_offset = offset,
            .operands = operands,
            .positions = positions};
  }

 private:
  void draw_operands(Draw& draw, Arena& arena) {
    const bool in_place = draw.chance(40);
    const auto count = 1 + draw.upto(!large && tokens < 100 && draw.chance(20) ? 5 : 1);
    const DType type =
        draw.of({DType::kFloat16, DType::kBFloat16, DType::kFloat32, DType::kFloat64});
    std::vector<std::int64_t> heads;
    for (std::int64_t k = 0; k < count; ++k) {
      heads.push_back(large ? draw.of<std::int64_t>({4, 8, 12, 32})
                            : draw.of<std::int64_t>({1, 2, 3, 8, 12}));
    }
    if (large) {
      std::int64_t row = 0;
      for (const std::int64_t h : heads) row += h * head_dim;
      row *= batch * static_cast<std::int64_t>(size_of(type));
      tokens = kLargeBytes / row + 1 + draw.upto(3);
    }
    for (const std::int64_t h : heads) {
      const Dims shape = {batch, tokens, h, head_dim};
      const DType own = large || draw.chance(90) ? type : DType::kFloat32;
      const int order = draw_order(draw);
      const TensorView in = make_view(draw, arena, own, shape, order);
      if (in_place) {
        operands.emplace_back(in);
        continue;
      }
      operands.emplace_back(
          in, make_view(draw, arena, own, shape, draw.chance(50) ? order : draw_order(draw)));
    }
  }

  /// Contiguous half of the time; large ones never have strided elements.
  int draw_order(Draw& draw) const {
    const int order = static_cast<int>(draw.upto(9));
    return order > 4 || (large && order == 3) ? 0 : order;
  }

  void draw_phases(Draw& draw, Arena& arena) {
    const bool grows = draw.chance(8);
    const Precision precision = draw.chance(8) ? Precision::kReference : Precision::kExact;
    matrix = make_matrix(draw, pairs, axes, grows);
    phases = make_phase_table(matrix, precision);
    divisor = make_phase_table(make_matrix(draw, pairs, axes, false),
                               draw.chance(80) ? Precision::kExact : Precision::kReference);
    positions = make_positions(draw, arena, axes, batch, tokens);
    source.phases = &phases;
    source.is_position = !draw.chance(10);
    if (draw.chance(15) && source.is_position) source.divisor = &divisor;
    const bool reference =
        (precision == Precision::kReference && source.is_position) ||
        (source.divisor != nullptr && divisor.precision == Precision::kReference);
    if (reference) kind = "reference";
    if (grows) kind = "grows";
  }

  void draw_table(Draw& draw, Arena& arena) {
    const DType type =
        draw.of({DType::kFloat16, DType::kBFloat16, DType::kFloat32, DType::kFloat64});
    source.width = draw.of({TableWidth::kPairs, TableWidth::kTwicePairs});
    const std::int64_t width = source.width == TableWidth::kPairs ? pairs : 2 * pairs;
    const std::int64_t several = draw.chance(50) ? batch : 1;
    for (ConstTensorView* view : {&table.cos, &table.sin}) {
      char* data = arena.take(several * tokens * width * 8);
      fill_elements(draw, type, data, several * tokens * width);
      *view = {data, type, 3, {several, tokens, width, 0}, {tokens * width, width, 1, 0}, {}};
    }
    source.table = &table;
    kind = "table";
  }
};

}  // namespace random_rotations
