// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// M-RoPE: one ladder over all pairs; sections say which axis rotates each pair.
//   kChunked       Qwen2-VL (arXiv 2409.12191): s_0 pairs of axis 0, then s_1 of axis 1, ...
//   kInterleaved   Qwen3-VL: pair i goes to axis i mod n while i < n * s_axis, else to axis 0
//   kRoundRobin    each pair goes to the next axis whose section is not used up
//   kSpatialFirst  ERNIE 4.5 VL: axes 1 and 2 alternate over s_1 + s_2 pairs, axis 0 has the rest
//   kSpatialBlocks as kSpatialFirst, sorted by axis: 1, 2, 0 (Cohere Compass)

#include <algorithm>
#include <numeric>

#include "frequencies/axes.h"
#include "support/message.h"

namespace rotary::internal {
namespace {

std::vector<std::int64_t> chunked(const std::vector<std::int64_t>& sections) {
  std::vector<std::int64_t> axis_of_pair;
  for (std::size_t axis = 0; axis < sections.size(); ++axis) {
    axis_of_pair.insert(axis_of_pair.end(), static_cast<std::size_t>(sections[axis]),
                        static_cast<std::int64_t>(axis));
  }
  return axis_of_pair;
}

std::vector<std::int64_t> interleaved(const std::vector<std::int64_t>& sections,
                                      std::int64_t pairs) {
  const auto axes = static_cast<std::int64_t>(sections.size());
  std::vector<std::int64_t> axis_of_pair(static_cast<std::size_t>(pairs), 0);
  for (std::int64_t i = 0; i < pairs; ++i) {
    const std::int64_t axis = i % axes;
    if (i / axes < sections[static_cast<std::size_t>(axis)]) {
      axis_of_pair[static_cast<std::size_t>(i)] = axis;
    }
  }
  return axis_of_pair;
}

std::vector<std::int64_t> round_robin(std::vector<std::int64_t> left, std::int64_t pairs) {
  std::vector<std::int64_t> axis_of_pair;
  std::size_t axis = 0;
  while (static_cast<std::int64_t>(axis_of_pair.size()) < pairs) {
    if (left[axis] > 0) {
      --left[axis];
      axis_of_pair.push_back(static_cast<std::int64_t>(axis));
    }
    axis = (axis + 1) % left.size();
  }
  return axis_of_pair;
}

std::vector<std::int64_t> spatial_first(const std::vector<std::int64_t>& sections) {
  constexpr const char* kRule =
      "[make_frequencies] spatial-first sections must be t h w with equal h and w, got ";
  if (sections.size() != 3) reject(kRule, sections.size(), " sections");
  if (sections[1] != sections[2]) {
    reject(kRule, sections[0], " ", sections[1], " ", sections[2]);
  }
  std::vector<std::int64_t> axis_of_pair;
  for (std::int64_t i = 0; i < sections[1]; ++i) axis_of_pair.insert(axis_of_pair.end(), {1, 2});
  axis_of_pair.insert(axis_of_pair.end(), static_cast<std::size_t>(sections[0]), 0);
  return axis_of_pair;
}

void check_sections(const Mrope& map, std::int64_t pairs) {
  if (map.sections.empty() || map.sections.size() > std::size_t{kMaxAxes}) {
    reject("[make_frequencies] mrope needs 1 to ", kMaxAxes, " sections, got ",
           map.sections.size());
  }
  // The interleaved rule is defined for any sections: each only bounds its own axis.
  const bool adds_up = map.order != MropeOrder::kInterleaved;
  std::int64_t left = pairs;
  for (const std::int64_t section : map.sections) {
    if (section < 0 || (adds_up && section > left)) {
      reject("[make_frequencies] mrope sections must add up to ", pairs,
             " pairs, got a section of ", section);
    }
    if (adds_up) left -= section;
  }
  if (adds_up && left != 0) {
    reject("[make_frequencies] mrope sections must add up to ", pairs, " pairs, got ",
           pairs - left);
  }
}

/// Index into the ladder of each pair: the pair number, or sorted by axis 1, 2, 0.
std::vector<std::size_t> frequency_of_pair(const Mrope& map,
                                           const std::vector<std::int64_t>& axes) {
  std::vector<std::size_t> indices(axes.size());
  std::iota(indices.begin(), indices.end(), std::size_t{0});
  if (map.order == MropeOrder::kSpatialBlocks) {
    std::stable_sort(indices.begin(), indices.end(), [&axes](std::size_t a, std::size_t b) {
      return (axes[a] + 2) % 3 < (axes[b] + 2) % 3;
    });
  }
  return indices;
}

std::vector<std::int64_t> axis_of_frequency(const Mrope& map, std::int64_t pairs) {
  switch (map.order) {
    case MropeOrder::kChunked:
      return chunked(map.sections);
    case MropeOrder::kInterleaved:
      return interleaved(map.sections, pairs);
    case MropeOrder::kRoundRobin:
      return round_robin(map.sections, pairs);
    case MropeOrder::kSpatialFirst:
    case MropeOrder::kSpatialBlocks:
      return spatial_first(map.sections);
  }
  reject("[make_frequencies] unknown mrope order ", static_cast<int>(map.order));
}

}  // namespace

Frequencies assign_axes(const Mrope& map, const LadderSource& source) {
  const std::int64_t pairs = source.args.pairs;
  check_sections(map, pairs);
  const Ladder ladder = source.whole();
  const std::vector<std::int64_t> axes = axis_of_frequency(map, pairs);
  Frequencies matrix = blank_matrix(pairs, static_cast<std::int64_t>(map.sections.size()), ladder);
  const std::vector<std::size_t> indices = frequency_of_pair(map, axes);
  for (std::size_t pair = 0; pair < indices.size(); ++pair) {
    const std::size_t index = indices[pair];
    set_frequency(matrix, static_cast<std::int64_t>(pair), axes[index], ladder, index);
  }
  return matrix;
}

}  // namespace rotary::internal
