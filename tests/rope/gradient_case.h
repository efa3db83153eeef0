// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// Test cases of gradients for every engine: recipes with real positions, tensors of several heads
// and types, the sums of the formula, and tolerances.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "reference/gradient.h"
#include "rope/expect_rotation.h"
#include "rope/placed_tensor.h"
#include "rotary/rope.h"

namespace rotary::gradient_case {

using reference::Sum;

inline constexpr std::int64_t kBatch = 2;
inline constexpr std::int64_t kTokens = 5;
inline constexpr std::int64_t kHeadDim = 15;
inline constexpr std::int64_t kPairs = 6;

inline Sizes sizes(std::int64_t heads) { return {kBatch, kTokens, heads, kHeadDim}; }

/// Frequencies and real positions [axes or 1, batch or 1, tokens].
struct Setting {
  std::string name;
  Frequencies f;
  bool on_all_axes;
  bool per_batch;
  std::vector<double> positions;

  std::int64_t axes() const { return on_all_axes ? 1 : f.axes; }
  std::int64_t rows() const { return per_batch ? kBatch : 1; }
  std::size_t index(std::int64_t b, std::int64_t t, std::int64_t a) const {
    return static_cast<std::size_t>(
        ((on_all_axes ? 0 : a) * rows() + (per_batch ? b : 0)) * kTokens + t);
  }
  Positions view() const {
    const auto ids = [this] {
      if (per_batch) {
        return ConstTensorView::contiguous(positions.data(), DType::kFloat64,
                                           {axes(), kBatch, kTokens});
      }
      return ConstTensorView::contiguous(positions.data(), DType::kFloat64, {axes(), kTokens});
    };
    return on_all_axes ? Positions::ids(ids()).on_all_axes() : Positions::ids(ids());
  }
  /// [batch * tokens, axes]
  std::vector<long double> expanded() const {
    std::vector<long double> result;
    for (std::int64_t b = 0; b < kBatch; ++b) {
      for (std::int64_t t = 0; t < kTokens; ++t) {
        for (std::int64_t a = 0; a < f.axes; ++a) {
          result.push_back(static_cast<long double>(positions[index(b, t, a)]));
        }
      }
    }
    return result;
  }
  HeadLayout layout() const {
    return {.head_dim = kHeadDim,
            .rotary_offset = 2,
            .pairing = Pairing::kInterleaved,
            .output_pairing = Pairing::kHalf};
  }
};

inline Setting setting(std::string name, const Recipe& recipe, bool on_all_axes, bool per_batch) {
  Setting s{std::move(name), make_frequencies(recipe), on_all_axes, per_batch, {}};
  for (std::int64_t i = 0; i < s.axes() * s.rows() * kTokens; ++i) {
    s.positions.push_back(0.37 * static_cast<double>((7 * i) % 31) - 4.1);
  }
  return s;
}

inline std::vector<Setting> settings() {
  const Yarn yarn{.factor = 4, .original_context = 64};
  const Recipe plain{.rotary_dim = 2 * kPairs, .theta = 100};
  Recipe scaled = plain;
  scaled.scaling = yarn;
  Recipe grown = plain;
  grown.scaling = Xpos{.scale_base = 40, .origin = 3.0};
  Recipe grown_axes = grown;
  grown_axes.axes = Axial{};
  Recipe mrope = scaled;
  mrope.axes = Mrope{{2, 2, 2}};
  Recipe mixed = plain;
  Mixed matrix{.axes = 2, .frequencies = {}};
  for (int i = 0; i < 2 * kPairs; ++i) matrix.frequencies.push_back(0.9 - 0.17 * i);
  mixed.axes = matrix;
  return {setting("plain", plain, false, false),
          setting("plain, per batch", plain, false, true),
          setting("YaRN", scaled, false, false),
          setting("YaRN, per batch", scaled, false, true),
          setting("xPos", grown, false, false),
          setting("xPos, per batch", grown, false, true),
          setting("xPos, 2 axes", grown_axes, false, true),
          setting("xPos, on all axes", grown_axes, true, false),
          setting("M-RoPE", mrope, false, false),
          setting("M-RoPE, per batch", mrope, false, true),
          setting("M-RoPE, on all axes", mrope, true, false),
          setting("M-RoPE, on all axes, per batch", mrope, true, true),
          setting("mixed", mixed, false, false)};
}

/// Inputs and gradients of the result, in different memory, some heads each.
struct Tensors {
  explicit Tensors(const std::vector<DType>& types) {
    std::int64_t heads = 3;
    for (const DType dtype : types) {
      in.push_back(std::make_unique<PlacedTensor>(Layout::kPackedQkv, dtype, sizes(heads), 1));
      grad.push_back(std::make_unique<PlacedTensor>(Layout::kHeadsFirst, dtype, sizes(heads), 2));
      out.push_back(std::make_unique<PlacedTensor>(Layout::kContiguous, dtype, sizes(heads), 3));
      heads = heads == 3 ? 1 : heads + 1;
    }
  }
  std::vector<GradientOperand> operands() const {
    std::vector<GradientOperand> list;
    for (std::size_t i = 0; i < in.size(); ++i) {
      list.push_back({in[i]->view(), grad[i]->view(), out[i]->view()});
    }
    return list;
  }
  std::vector<std::unique_ptr<PlacedTensor>> in;
  std::vector<std::unique_ptr<PlacedTensor>> grad;
  std::vector<std::unique_ptr<PlacedTensor>> out;
};

/// What one call writes.
struct Result {
  std::vector<double> frequencies;
  std::vector<double> positions;  // as Setting::positions
  double scale = 0.0;
};

inline reference::Gradients expected_of(const Setting& s, const Tensors& tensors) {
  reference::Gradients sums;
  for (std::size_t i = 0; i < tensors.in.size(); ++i) {
    reference::add_gradients(s.f, s.layout(), tensors.in[i]->values(), tensors.grad[i]->values(),
                             tensors.in[i]->sizes().heads, s.expanded(), sums);
  }
  std::vector<Sum> folded(s.positions.size());  // axes and rows that share a position
  for (std::int64_t b = 0; b < kBatch; ++b) {
    for (std::int64_t t = 0; t < kTokens; ++t) {
      for (std::int64_t a = 0; a < s.f.axes; ++a) {
        Sum& sum = folded[s.index(b, t, a)];
        sum = sum + sums.positions[static_cast<std::size_t>((b * kTokens + t) * s.f.axes + a)];
      }
    }
  }
  sums.positions = folded;
  return sums;
}

/// Calls compare(what, got, expected) for every number of a result.
inline void for_each(const Result& got, const reference::Gradients& expected,
                     const std::function<void(const std::string&, double, const Sum&)>& compare) {
  for (std::size_t i = 0; i < got.frequencies.size(); ++i) {
    compare("frequency " + std::to_string(i), got.frequencies[i], expected.frequencies[i]);
  }
  for (std::size_t i = 0; i < got.positions.size(); ++i) {
    compare("position " + std::to_string(i), got.positions[i], expected.positions[i]);
  }
  compare("scale", got.scale, expected.scale);
}

/// Relative to the sizes of the terms: a rotation, a dot product of two elements (1), the sum over
/// at most six heads (2.5) and the factor (0.5) in the arithmetic of the tensor, and a sum of not
/// more than 500 terms in float64 (250).
inline double allowed_error(DType dtype) {
  return (units_of(dtype) + 4.0) * (dtype == DType::kFloat64 ? 0x1p-52 : 0x1p-23) + 250.0 * 0x1p-52;
}

/// Types of the operands of one call.
inline std::vector<std::vector<DType>> operand_types() {
  return {{DType::kFloat32},
          {DType::kFloat64},
          {DType::kBFloat16},
          {DType::kFloat16},
          {DType::kFloat64, DType::kFloat64, DType::kFloat64},
          {DType::kBFloat16, DType::kFloat32, DType::kFloat16}};
}

inline void expect_near(const Setting& s, const std::vector<DType>& types, const Result& got,
                        const reference::Gradients& expected) {
  for_each(got, expected, [&](const std::string& what, double value, const Sum& sum) {
    EXPECT_LE(std::fabs(static_cast<long double>(value) - sum.value),
              static_cast<long double>(allowed_error(types.front())) * sum.size)
        << s.name << ", " << name_of(types.front()) << ", " << what << ": " << value << ", not "
        << sum.value;
  });
}

}  // namespace rotary::gradient_case
