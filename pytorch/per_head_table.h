// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// cos and sin of frequencies of each head, for a block of tokens, on the CPU.
#pragma once

#include <ATen/core/Tensor.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <limits>
#include <type_traits>
#include <vector>

#include "pytorch/per_head.h"
#include "pytorch/per_head_loops.h"
#include "pytorch/per_head_neon.h"
#include "pytorch/rope_cache.h"

namespace rotary::torch {

inline double length_of_factor(const PerHeadArgs& args, const SharedRope& rope, RotationOp op) {
  const double scale =
      is_given(args.scale) ? *args.scale->const_data_ptr<double>() : rope.frequencies().scale;
  return divides_by_scale(op) ? 1.0 / scale : scale;
}

/// length (cos + i sign sin) of all heads and pairs for one vector of positions. NaN is always the
/// one of numeric_limits, whatever its origin: rounding of bfloat16 in per_head_loops.h keeps it.
struct UnitRow {
  using Axes = std::array<double, kMaxPerHeadAxes>;

  void evaluate(const PerHeadArgs& args, const Axes& at, double length, double sign) {
    const auto entries = static_cast<std::size_t>(args.frequencies.size(0)) *
                         static_cast<std::size_t>(args.frequencies.size(1));
    const auto axes = static_cast<std::size_t>(args.frequencies.size(2));
    const double* f = args.frequencies.const_data_ptr<double>();
    cos.resize(entries);
    sin.resize(entries);
    for (std::size_t e = 0; e < entries; ++e) {
      double phase = 0.0;
      for (std::size_t a = 0; a < axes; ++a) phase += at[a] * f[e * axes + a];
      cos[e] = length * std::cos(phase);
      sin[e] = sign * length * std::sin(phase);
      if (std::isnan(cos[e])) cos[e] = sin[e] = std::numeric_limits<double>::quiet_NaN();
    }
    position = at;
  }

  Axes position{};
  std::vector<double> cos{};  // [heads * pairs]
  std::vector<double> sin{};
};

/// Positions of a batch row, on all axes.
class RowPositions {
 public:
  RowPositions(const PerHeadArgs& args, std::int64_t row)
      : first_(args.positions.const_data_ptr<double>() + row * args.positions.stride(1)),
        axis_stride_(args.positions.size(0) == 1 ? 0 : args.positions.stride(0)),
        axes_(args.frequencies.size(2)) {}

  UnitRow::Axes at(std::int64_t token) const {
    UnitRow::Axes x{};
    for (std::int64_t a = 0; a < axes_; ++a) {
      x[static_cast<std::size_t>(a)] = first_[a * axis_stride_ + token];
    }
    return x;
  }
  /// From the token before.
  UnitRow::Axes distance(std::int64_t token) const {
    UnitRow::Axes x = at(token);
    const UnitRow::Axes before = at(token - 1);
    for (std::size_t a = 0; a < x.size(); ++a) x[a] -= before[a];
    return x;
  }

 private:
  const double* first_;
  std::int64_t axis_stride_;
  std::int64_t axes_;
};

/// The rotation from the first token of a call to the second: in text the one between any two.
inline UnitRow first_step(const PerHeadArgs& args, RotationOp op) {
  UnitRow step;
  if (args.positions.size(1) > 0 && args.positions.size(2) > 1) {
    step.evaluate(args, RowPositions(args, 0).distance(1), 1.0, phase_sign(op));
  }
  return step;
}

/// The factor of `op` for a block of tokens of one batch row: its real and imaginary part, [tokens,
/// heads, pairs]. Equal distances between tokens, as in text and in the rows of an image, need one
/// complex product per pair and token; rounding errors grow by an ulp of double a token, to 1e-14
/// at most.
template <typename S>
class BlockTable {
 public:
  /// `first_step` outlives it.
  BlockTable(const PerHeadArgs& args, const SharedRope& rope, RotationOp op,
             const UnitRow& first_step)
      : args_(args),
        first_step_(first_step),
        length_(length_of_factor(args, rope, op)),
        sign_(phase_sign(op)) {}

  void fill(std::int64_t row, std::int64_t first, std::int64_t last) {
    const RowPositions positions(args_, row);
    now_.evaluate(args_, positions.at(first), length_, sign_);
    const auto entries = static_cast<std::int64_t>(now_.cos.size());
    const auto size = static_cast<std::size_t>((last - first) * entries);
    cos_.resize(size);
    sin_.resize(size);
    S* cos = cos_.data();
    S* sin = sin_.data();
    std::copy(now_.cos.begin(), now_.cos.end(), cos);
    std::copy(now_.sin.begin(), now_.sin.end(), sin);
    for (std::int64_t t = first + 1; t < last;) {
      const UnitRow::Axes distance = positions.distance(t);
      std::int64_t end = t + 1;
      while (end < last && positions.distance(end) == distance) ++end;
      const std::int64_t row = (t - first) * entries;
      advance(now_, step_of(distance), end - t, cos + row, sin + row);
      t = end;
    }
  }
  BlockFactor<S> factor() const { return {cos_.data(), sin_.data()}; }

 private:
  const UnitRow& step_of(const UnitRow::Axes& distance) {
    if (distance == first_step_.position) return first_step_;
    if (step_.cos.empty() || distance != step_.position) {
      step_.evaluate(args_, distance, 1.0, sign_);
    }
    return step_;
  }
  /// From `now` on, `tokens` steps of one length.
  static void advance(UnitRow& now, const UnitRow& step, std::int64_t tokens, S* cos, S* sin) {
    const auto entries = static_cast<std::int64_t>(now.cos.size());
    std::int64_t first = 0;
#if defined(__aarch64__)
    if constexpr (std::is_same_v<S, float>) {
      for (; first + neon::kTableEntries <= entries; first += neon::kTableEntries) {
        neon::advance_entries(now.cos.data() + first, now.sin.data() + first,
                              step.cos.data() + first, step.sin.data() + first, entries, tokens,
                              cos + first, sin + first);
      }
    }
#endif
    for (std::int64_t t = 0; t < tokens && first < entries; ++t) {
      advance_one(now.cos.data(), now.sin.data(), step.cos.data(), step.sin.data(), first, entries,
                  cos + t * entries, sin + t * entries);
    }
  }
  /// To the next token, for the entries from `first` on.
  static void advance_one(double* __restrict cos, double* __restrict sin,
                          const double* __restrict step_cos, const double* __restrict step_sin,
                          std::int64_t first, std::int64_t entries, S* __restrict to_cos,
                          S* __restrict to_sin) {
    for (std::int64_t e = first; e < entries; ++e) {
      const double c = cos[e] * step_cos[e] - sin[e] * step_sin[e];
      const double s = sin[e] * step_cos[e] + cos[e] * step_sin[e];
      cos[e] = c;
      sin[e] = s;
      to_cos[e] = static_cast<S>(c);
      to_sin[e] = static_cast<S>(s);
    }
  }

  const PerHeadArgs& args_;
  const UnitRow& first_step_;
  double length_;
  double sign_;
  UnitRow now_{};
  UnitRow step_{};
  std::vector<S> cos_{};
  std::vector<S> sin_{};
};

}  // namespace rotary::torch
