// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

#include "pytorch/shared/call_positions.h"

#include <stdexcept>
#include <string>

namespace rotary::torch {
namespace {

[[noreturn]] void reject(std::string_view function, const std::string& message) {
  throw std::invalid_argument('[' + std::string(function) + "] " + message);
}

/// Drops a leading dimension of size 1.
ConstTensorView without(const ConstTensorView& view, std::size_t dimension) {
  ConstTensorView less = view;
  less.rank = view.rank - 1;
  for (std::size_t i = dimension; i < static_cast<std::size_t>(less.rank); ++i) {
    less.shape[i] = view.shape[i + 1];
    less.strides[i] = view.strides[i + 1];
  }
  return less;
}

/// [batch, tokens] as [1, batch, tokens].
ConstTensorView with_axis(const ConstTensorView& view) {
  ConstTensorView more = view;
  more.rank = 3;
  more.shape = {1, view.shape[0], view.shape[1], 0};
  more.strides = {0, view.strides[0], view.strides[1], 0};
  return more;
}

/// A single position is broadcast over tokens.
void broadcast_over_tokens(ConstTensorView& view, std::int64_t tokens) {
  const auto last = static_cast<std::size_t>(view.rank - 1);
  if (view.shape[last] != 1) return;
  view.shape[last] = tokens;
  view.strides[last] = 0;
}

Positions ids(std::string_view function, ConstTensorView view, PositionKind kind,
              const ConstTensorView& x) {
  if (view.rank < 1 || view.rank > 3) {
    reject(function, "positions must be [tokens], [batch, tokens] or [axes, batch, tokens], got " +
                         std::to_string(view.rank) + " dimensions");
  }
  if (view.dtype == DType::kFloat16 || view.dtype == DType::kBFloat16) {
    reject(function, "positions must be int32, int64, float32 or float64, got " +
                         std::string(name_of(view.dtype)) +
                         ", which does not hold every whole number");
  }
  if (kind == PositionKind::kDistance) {
    broadcast_over_tokens(view, x.shape[static_cast<std::size_t>(x.rank - 3)]);
  }
  if (view.rank == 1) return Positions::ids(view);
  if (view.rank == 2) view = with_axis(view);
  const std::int64_t batch = x.rank == 4 ? x.shape[0] : 1;
  if (view.shape[1] == 1 && batch != 1) view = without(view, 1);
  return Positions::ids(view);
}

Positions packed(std::string_view function, const CallPositions& given, PositionKind kind) {
  const ConstTensorView& boundaries = *given.cu_seqlens;
  if (boundaries.rank != 1) {
    reject(function, "cu_seqlens must be [sequences + 1], got " + std::to_string(boundaries.rank) +
                         " dimensions");
  }
  const ConstTensorView first = given.positions.value_or(ConstTensorView{});
  if (kind == PositionKind::kAbsolute) return Positions::packed(boundaries, first);
  if (!given.positions) reject(function, "packed sequences need a distance for each");
  return Positions::packed_at(boundaries, first);
}

/// As given, before an axis is broadcast to several.
Positions positions_as_given(std::string_view function, const CallPositions& given,
                             const ConstTensorView& x, PositionKind kind) {
  if (given.first != 0 && (given.cu_seqlens || given.positions)) {
    reject(function, "first is for calls without positions, got " + std::to_string(given.first));
  }
  if (given.cu_seqlens) return packed(function, given, kind);
  if (given.positions) return ids(function, *given.positions, kind, x);
  return kind == PositionKind::kDistance ? Positions::at(given.first)
                                         : Positions::range(given.first);
}

}  // namespace

Positions make_positions(std::string_view function, const RopeSet& ropes,
                         const CallPositions& given, const ConstTensorView& x, PositionKind kind) {
  const Positions positions = positions_as_given(function, given, x, kind);
  const bool broadcast_axis = ropes.one_axis() == OneAxisPositions::kOnAllAxes &&
                              ropes.frequencies().axes > 1 && positions.axes() == 1;
  return broadcast_axis ? positions.on_all_axes() : positions;
}

void check_rank(std::string_view function, std::int64_t dimensions, std::int64_t token_dim) {
  if (token_dim != -3 && token_dim != -2) {
    reject(function,
           "token_dim must be -3 (tokens, heads, head_dim) or -2 (heads, tokens, head_dim), got " +
               std::to_string(token_dim));
  }
  if (dimensions < 3) {
    reject(function, "a tensor must have tokens, heads and head_dim, got " +
                         std::to_string(dimensions) + " dimensions");
  }
}

}  // namespace rotary::torch
