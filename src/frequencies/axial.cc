// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// Axial rotation: each axis rotates its own part of the pairs (axial RoPE of EVA-02 and RoPE-ViT,
// arXiv 2403.13298; three axes for video). Own ladder over dims[a]: f_i = theta^(-2i/dims[a]).
// Strided (Pixtral): axis a gets f_a, f_(a+n), f_(a+2n), ... of one ladder over rotary_dim.

#include <numeric>

#include "frequencies/axes.h"
#include "support/message.h"

namespace rotary::internal {
namespace {

/// Dims of each part, in layout order; equal shares unless given.
std::vector<std::int64_t> part_dims(const Axial& map, std::int64_t rotary_dim) {
  const auto parts = static_cast<std::size_t>(map.axes);
  if (map.dims.empty()) {
    return std::vector<std::int64_t>(parts, 2 * (rotary_dim / map.axes / 2));
  }
  if (map.dims.size() != parts) {
    reject("[make_frequencies] axial dims must have one entry an axis (", map.axes, "), got ",
           map.dims.size());
  }
  std::int64_t left = rotary_dim;
  for (const std::int64_t dim : map.dims) {
    if (dim < 0 || dim % 2 != 0 || dim > left) {
      reject("[make_frequencies] axial dims must be even and fit into rotary_dim ", rotary_dim,
             ", got ", dim);
    }
    left -= dim;
  }
  return map.dims;
}

/// Position axis of each part, in layout order: a permutation.
std::vector<std::int64_t> part_axes(const Axial& map) {
  std::vector<std::int64_t> axes(static_cast<std::size_t>(map.axes));
  std::iota(axes.begin(), axes.end(), 0);
  if (map.axis_order.empty()) return axes;
  std::vector<bool> seen(axes.size(), false);
  for (const std::int64_t axis : map.axis_order) {
    if (axis < 0 || axis >= map.axes || seen[static_cast<std::size_t>(axis)]) {
      reject("[make_frequencies] axial axis_order must be a permutation of 0..", map.axes - 1,
             ", got axis ", axis);
    }
    seen[static_cast<std::size_t>(axis)] = true;
  }
  if (map.axis_order.size() != axes.size()) {
    reject("[make_frequencies] axial axis_order must have one entry an axis (", map.axes, "), got ",
           map.axis_order.size());
  }
  return map.axis_order;
}

}  // namespace

Frequencies assign_axes(const Axial& map, const LadderSource& source) {
  if (map.axes < 1 || map.axes > kMaxAxes) {
    reject("[make_frequencies] axial axes must be 1 to ", kMaxAxes, ", got ", map.axes);
  }
  const std::int64_t rotary_dim = 2 * source.args.pairs;
  const std::vector<std::int64_t> dims = part_dims(map, rotary_dim);
  const std::vector<std::int64_t> axes = part_axes(map);
  const bool own = map.ladder == AxialLadder::kOwn;
  if (map.order == AxialOrder::kAlternating || !own) {
    for (const std::int64_t dim : dims) {
      if (dim != dims.front()) {
        reject("[make_frequencies] ", own ? "alternating" : "strided",
               " axes need equal dims, got ", dims.front(), " and ", dim);
      }
    }
  }
  const Ladder whole = own ? Ladder{} : source.whole();
  Frequencies matrix;
  std::int64_t block = 0;
  for (std::size_t part = 0; part < dims.size(); ++part) {
    const std::int64_t pairs = dims[part] / 2;
    const Ladder ladder = own ? source.over(dims[part]) : whole;
    if (part == 0) matrix = blank_matrix(source.args.pairs, map.axes, ladder);
    for (std::int64_t i = 0; i < pairs; ++i) {
      const std::int64_t pair = map.order == AxialOrder::kBlocks
                                    ? block + i
                                    : i * map.axes + static_cast<std::int64_t>(part);
      const std::int64_t index = own ? i : i * map.axes + static_cast<std::int64_t>(part);
      set_frequency(matrix, pair, axes[part], ladder, static_cast<std::size_t>(index));
    }
    block += pairs;
  }
  return matrix;
}

}  // namespace rotary::internal
