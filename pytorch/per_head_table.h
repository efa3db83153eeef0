// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// cos and sin of frequencies of each head, for a block of tokens, on the CPU.
#pragma once

#include <ATen/core/Tensor.h>

#include <array>
#include <cmath>
#include <cstdint>
#include <vector>

#include "pytorch/per_head.h"
#include "pytorch/rope_cache.h"

namespace rotary::torch {

/// cos and sin of one head for a block of tokens. Equal distances between tokens, as in text and in
/// the rows of an image, need one complex product per pair and token; rounding errors grow by an
/// ulp of double a token, to 1e-14 at most.
template <typename T>
class TableBlock {
 public:
  TableBlock(const double* frequencies, std::int64_t pairs, std::int64_t axes, double length,
             double sign)
      : frequencies_(frequencies),
        pairs_(static_cast<std::size_t>(pairs)),
        axes_(static_cast<std::size_t>(axes)),
        length_(length),
        sign_(sign),
        cos_(pairs_),
        sin_(pairs_),
        step_cos_(pairs_),
        step_sin_(pairs_) {}

  /// `positions`: of axis 0; those of the others follow after `axis_stride`. cos and sin of a token
  /// follow after `token_stride`.
  void fill(const double* positions, std::int64_t axis_stride, std::int64_t tokens, T* cos, T* sin,
            std::int64_t token_stride) {
    Axes last{};
    Axes distance{};
    for (std::int64_t t = 0; t < tokens; ++t) {
      Axes at{};
      Axes moved{};
      for (std::size_t a = 0; a < axes_; ++a) {
        at[a] = positions[static_cast<std::int64_t>(a) * axis_stride + t];
        moved[a] = at[a] - last[a];
      }
      if (t == 0) {
        evaluate(at, cos_, sin_);
      } else {
        if (t == 1 || moved != distance) evaluate(moved, step_cos_, step_sin_);
        multiply(cos_.data(), sin_.data(), step_cos_.data(), step_sin_.data(), pairs_);
      }
      distance = moved;
      last = at;
      write(cos_.data(), length_, pairs_, cos);
      write(sin_.data(), sign_ * length_, pairs_, sin);
      cos += token_stride;
      sin += token_stride;
    }
  }

 private:
  using Axes = std::array<double, kMaxPerHeadAxes>;

  void evaluate(const Axes& at, std::vector<double>& cos, std::vector<double>& sin) const {
    for (std::size_t i = 0; i < pairs_; ++i) {
      double phase = 0.0;
      for (std::size_t a = 0; a < axes_; ++a) phase += at[a] * frequencies_[i * axes_ + a];
      cos[i] = std::cos(phase);
      sin[i] = std::sin(phase);
    }
  }
  /// The next token, at the distance of the step.
  static void multiply(double* __restrict cos, double* __restrict sin,
                       const double* __restrict step_cos, const double* __restrict step_sin,
                       std::size_t pairs) {
    for (std::size_t i = 0; i < pairs; ++i) {
      const double c = cos[i] * step_cos[i] - sin[i] * step_sin[i];
      const double s = sin[i] * step_cos[i] + cos[i] * step_sin[i];
      cos[i] = c;
      sin[i] = s;
    }
  }
  static void write(const double* __restrict from, double factor, std::size_t pairs,
                    T* __restrict to) {
    for (std::size_t i = 0; i < pairs; ++i) to[i] = static_cast<T>(factor * from[i]);
  }

  const double* frequencies_;
  std::size_t pairs_;
  std::size_t axes_;
  double length_;
  double sign_;
  std::vector<double> cos_;
  std::vector<double> sin_;
  std::vector<double> step_cos_;
  std::vector<double> step_sin_;
};

inline double length_of_factor(const PerHeadArgs& args, const SharedRope& rope, RotationOp op) {
  const double scale =
      is_given(args.scale) ? *args.scale->const_data_ptr<double>() : rope.frequencies().scale;
  return divides_by_scale(op) ? 1.0 / scale : scale;
}

/// The factor of `op` for a block of tokens of one batch row: its real and imaginary part, [tokens,
/// heads, pairs].
template <typename S>
class BlockTable {
 public:
  BlockTable(const PerHeadArgs& args, const SharedRope& rope, RotationOp op)
      : args_(args), op_(op), length_(length_of_factor(args, rope, op)) {}

  void fill(std::int64_t row, std::int64_t first, std::int64_t last) {
    const at::Tensor& positions = args_.positions;
    const at::Tensor& f = args_.frequencies;
    const std::int64_t axis_stride = positions.size(0) == 1 ? 0 : positions.stride(0);
    const double* at = positions.const_data_ptr<double>() + row * positions.stride(1) + first;
    const std::int64_t entries = f.size(0) * f.size(1);
    const auto size = static_cast<std::size_t>((last - first) * entries);
    cos_.resize(size);
    sin_.resize(size);
    for (std::int64_t head = 0; head < f.size(0); ++head) {
      TableBlock<S> block(f.const_data_ptr<double>() + head * f.stride(0), f.size(1), f.size(2),
                          length_, phase_sign(op_));
      block.fill(at, axis_stride, last - first, cos_.data() + head * f.size(1),
                 sin_.data() + head * f.size(1), entries);
    }
    first_ = first;
  }
  const S* cos(std::int64_t token, std::int64_t head) const {
    return cos_.data() + at(token, head);
  }
  const S* sin(std::int64_t token, std::int64_t head) const {
    return sin_.data() + at(token, head);
  }

 private:
  std::int64_t at(std::int64_t token, std::int64_t head) const {
    return ((token - first_) * args_.frequencies.size(0) + head) * args_.frequencies.size(1);
  }

  const PerHeadArgs& args_;
  RotationOp op_;
  double length_;
  std::int64_t first_ = 0;
  std::vector<S> cos_{};
  std::vector<S> sin_{};
};

}  // namespace rotary::torch
