// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// One case of the rotation table: tensor, direction, layout and positions.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <sstream>
#include <string>
#include <vector>

#include "reference/rotation.h"
#include "rope/placed_tensor.h"
#include "rotary/frequencies.h"
#include "rotary/positions.h"

namespace rotary {

enum class Target : std::uint8_t { kInPlace, kOutOfPlace };
enum class Slice : std::uint8_t { kFull, kLeading, kOffset, kTrailing };
enum class Kind : std::uint8_t {
  kRange,
  kRowRange,
  kInt32,
  kInt64,
  kFloat32,
  kFloat64,
  kPacked,
  kBatchIds
};

struct Case {
  DType dtype;
  Layout layout;
  Pairing pairing;
  Pairing output;
  reference::Map map;
  Target target;
  Slice slice;
  Kind kind;
  std::int64_t axes;
  std::int64_t pairs;
  Sizes sizes;
  std::int64_t misaligned;  // elements

  std::string name() const {
    static constexpr std::array<const char*, 3> kMaps = {"rotate", "unrotate", "adjoint"};
    static constexpr std::array<const char*, 4> kSlices = {"full", "leading", "offset", "trailing"};
    static constexpr std::array<const char*, 8> kKinds = {
        "range", "row_range", "int32", "int64", "float32", "float64", "packed", "batch_ids"};
    std::ostringstream text;
    text << name_of(dtype) << ' ' << name_of(layout) << ' ' << name_of(pairing) << "->"
         << name_of(output) << ' ' << kMaps[static_cast<std::size_t>(map)]
         << (target == Target::kInPlace ? " in place " : " out of place ")
         << kSlices[static_cast<std::size_t>(slice)] << ' '
         << kKinds[static_cast<std::size_t>(kind)] << ' ' << axes << " axes " << pairs << " pairs "
         << sizes.batch << 'x' << sizes.tokens << 'x' << sizes.heads << 'x' << sizes.head_dim
         << " + " << misaligned;
    return text.str();
  }
};

inline HeadLayout head_layout(const Case& c) {
  std::int64_t offset = 0;
  if (c.slice == Slice::kOffset) offset = 3;
  if (c.slice == Slice::kTrailing) offset = c.sizes.head_dim - 2 * c.pairs;
  return {.head_dim = c.sizes.head_dim,
          .rotary_offset = offset,
          .pairing = c.pairing,
          .output_pairing = c.output};
}

/// Positive, zero and negative frequencies in rotation, on all axes. Always with scale; with growth
/// where there are two axes.
inline Frequencies frequencies_of(const Case& c) {
  Frequencies f{.pairs = c.pairs, .axes = c.axes, .scale = 1.1};
  for (std::int64_t i = 0; i < c.pairs; ++i) {
    for (std::int64_t a = 0; a < c.axes; ++a) {
      const double value = 0.9 - 0.21 * static_cast<double>(a) - 0.001 * static_cast<double>(i);
      f.values.push_back(i % 3 == 0 ? value : i % 3 == 1 ? 0.0 : -0.01 * value);
      if (c.axes == 2) f.growth.push_back(1e-4 * static_cast<double>(i % 3 - a));
    }
  }
  if (c.axes == 2) f.growth_origin = 12.5;
  return f;
}

/// Positions of one kind, with their memory, and their values: [batch * tokens, axes].
class TestPositions {
 public:
  explicit TestPositions(const Case& c) : case_(c) {
    const auto [batch, tokens, heads, head_dim] = c.sizes;
    for (std::int64_t b = 0; b < batch; ++b) first_.push_back(100 * b - 50);
    boundaries_ = {0, tokens / 3, tokens / 3, tokens};
    starts_ = {5, 77, -240};  // the sum over four axes is within the 1000 of the tolerance
    const std::int64_t rows = c.kind == Kind::kBatchIds ? batch : 1;
    // Memory is [tokens, rows, axes], so that views of it are strided.
    for (std::int64_t t = 0; t < tokens; ++t) {
      for (std::int64_t b = 0; b < rows; ++b) {
        for (std::int64_t a = 0; a < c.axes; ++a) {
          const std::int64_t id = (37 * t + 11 * a + 23 * b) % 97 - 40;
          int32_.push_back(static_cast<std::int32_t>(id));
          int64_.push_back(id);
          float32_.push_back(0.37f * static_cast<float>(id));
          float64_.push_back(0.731 * static_cast<double>(id));
        }
      }
    }
  }

  Positions positions() const {
    switch (case_.kind) {
      case Kind::kRange:
        return everywhere(Positions::range(-3));
      case Kind::kRowRange:
        return everywhere(Positions::range(first_));
      case Kind::kPacked:
        return everywhere(Positions::packed(boundaries_, starts_));
      case Kind::kInt32:
        return ids(int32_.data(), DType::kInt32);
      case Kind::kInt64:
      case Kind::kBatchIds:
        return ids(int64_.data(), DType::kInt64);
      case Kind::kFloat32:
        return ids(float32_.data(), DType::kFloat32);
      case Kind::kFloat64:
        return ids(float64_.data(), DType::kFloat64);
    }
    return Positions::range();
  }

  std::vector<long double> values() const {
    std::vector<long double> values;
    for (std::int64_t b = 0; b < case_.sizes.batch; ++b) {
      for (std::int64_t t = 0; t < case_.sizes.tokens; ++t) {
        for (std::int64_t a = 0; a < case_.axes; ++a) values.push_back(value(b, t, a));
      }
    }
    return values;
  }

 private:
  Positions everywhere(const Positions& one_axis) const {
    return case_.axes == 1 ? one_axis : one_axis.on_all_axes();
  }
  Positions ids(const void* data, DType dtype) const {
    const auto [batch, tokens, heads, head_dim] = case_.sizes;
    if (case_.kind == Kind::kBatchIds) {
      return Positions::ids(ConstTensorView{
          data, dtype, 3, {case_.axes, batch, tokens}, {1, case_.axes, batch * case_.axes}, {}});
    }
    return Positions::ids(
        ConstTensorView{data, dtype, 2, {case_.axes, tokens}, {1, case_.axes}, {}});
  }
  long double value(std::int64_t b, std::int64_t t, std::int64_t a) const {
    const std::int64_t rows = case_.kind == Kind::kBatchIds ? case_.sizes.batch : 1;
    const auto id = static_cast<std::size_t>((t * rows + (rows == 1 ? 0 : b)) * case_.axes + a);
    switch (case_.kind) {
      case Kind::kRange:
        return static_cast<long double>(t - 3);
      case Kind::kRowRange:
        return static_cast<long double>(100 * b - 50 + t);
      case Kind::kPacked: {
        const std::int64_t start = case_.sizes.tokens / 3;
        return static_cast<long double>(t < start ? 5 + t : -240 + t - start);
      }
      case Kind::kFloat32:
        return static_cast<long double>(float32_[id]);
      case Kind::kFloat64:
        return static_cast<long double>(float64_[id]);
      default:
        return static_cast<long double>(int64_[id]);
    }
  }

  Case case_;
  std::vector<std::int64_t> first_;
  std::vector<std::int64_t> boundaries_;
  std::vector<std::int64_t> starts_;
  std::vector<std::int32_t> int32_;
  std::vector<std::int64_t> int64_;
  std::vector<float> float32_;
  std::vector<double> float64_;
};

}  // namespace rotary
