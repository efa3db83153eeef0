// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// Rope::gradient against the formula, against finite differences of rotate(), and against the
// transpose: <rotate(x), g> = <x, adjoint(g)>.

#include "reference/gradient.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "rope/expect_rotation.h"
#include "rope/placed_tensor.h"
#include "rotary/rope.h"

namespace rotary {
namespace {

using reference::Sum;

constexpr DType kTypes[] = {DType::kFloat32, DType::kFloat64, DType::kBFloat16, DType::kFloat16};
constexpr std::int64_t kBatch = 2;
constexpr std::int64_t kTokens = 5;
constexpr std::int64_t kHeadDim = 15;
constexpr std::int64_t kPairs = 6;

Sizes sizes(std::int64_t heads) { return {kBatch, kTokens, heads, kHeadDim}; }

/// Frequencies and where their tokens stand: real positions [axes or 1, batch or 1, tokens].
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

Setting setting(std::string name, const Recipe& recipe, bool on_all_axes, bool per_batch) {
  Setting s{std::move(name), make_frequencies(recipe), on_all_axes, per_batch, {}};
  for (std::int64_t i = 0; i < s.axes() * s.rows() * kTokens; ++i) {
    s.positions.push_back(0.37 * static_cast<double>((7 * i) % 31) - 4.1);
  }
  return s;
}

std::vector<Setting> settings() {
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

Result run(const Rope& rope, const Setting& s, const std::vector<GradientOperand>& operands) {
  Result result{std::vector<double>(s.f.values.size(), -1.0), {}, -1.0};
  // The gradient of the positions goes to every second element, from the last to the first.
  std::vector<double> memory(2 * s.positions.size(), -1.0);
  TensorView view{memory.data() + memory.size() - 1,
                  DType::kFloat64,
                  3,
                  {s.axes(), kBatch, kTokens},
                  {-2 * s.rows() * kTokens, -2 * kTokens, -2},
                  {}};
  if (!s.per_batch) {
    view.rank = 2;
    view.shape = {s.axes(), kTokens};
    view.strides = {-2 * kTokens, -2};
  }
  rope.gradient(operands, s.view(),
                {.frequencies = result.frequencies, .positions = view, .scale = &result.scale});
  for (std::size_t i = 0; i < s.positions.size(); ++i) {
    result.positions.push_back(memory[memory.size() - 1 - 2 * i]);
    EXPECT_EQ(memory[memory.size() - 2 - 2 * i], -1.0) << "between the elements";
  }
  return result;
}

reference::Gradients expected_of(const Setting& s, const Tensors& tensors) {
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
void for_each(const Result& got, const reference::Gradients& expected,
              const std::function<void(const std::string&, double, const Sum&)>& compare) {
  for (std::size_t i = 0; i < got.frequencies.size(); ++i) {
    compare("frequency " + std::to_string(i), got.frequencies[i], expected.frequencies[i]);
  }
  for (std::size_t i = 0; i < got.positions.size(); ++i) {
    compare("position " + std::to_string(i), got.positions[i], expected.positions[i]);
  }
  compare("scale", got.scale, expected.scale);
}

// Relative to the sizes of the terms: a rotation, a dot product of two elements (1), the sum over
// at most six heads (2.5) and the factor (0.5) in the arithmetic of the tensor, and a sum of not
// more than 500 terms in float64 (250).
TEST(Gradient, MatchesTheFormula) {
  for (const Setting& s : settings()) {
    const Rope rope(s.f, s.layout());
    for (const std::vector<DType>& types :
         std::vector<std::vector<DType>>{{DType::kFloat32},
                                         {DType::kFloat64},
                                         {DType::kBFloat16},
                                         {DType::kFloat16},
                                         {DType::kFloat64, DType::kFloat64, DType::kFloat64},
                                         {DType::kBFloat16, DType::kFloat32, DType::kFloat16}}) {
      const Tensors tensors(types);
      const DType first = types.front();
      const double allowed =
          (units_of(first) + 4.0) * (first == DType::kFloat64 ? 0x1p-52 : 0x1p-23) +
          250.0 * 0x1p-52;
      for_each(run(rope, s, tensors.operands()), expected_of(s, tensors),
               [&](const std::string& what, double got, const Sum& expected) {
                 EXPECT_LE(std::fabs(static_cast<long double>(got) - expected.value),
                           static_cast<long double>(allowed) * expected.size)
                     << s.name << ", " << name_of(first) << ", " << what << ": " << got << ", not "
                     << expected.value;
               });
    }
  }
}

/// sum g . rotate(x) of all operands, in float64.
double loss(const Setting& s, const Tensors& tensors) {
  const Rope rope(s.f, s.layout());
  long double sum = 0.0L;
  for (std::size_t i = 0; i < tensors.in.size(); ++i) {
    const PlacedTensor out(Layout::kContiguous, DType::kFloat64, tensors.in[i]->sizes(), 0);
    rope.rotate(tensors.in[i]->view(), out.view(), s.view());
    const auto y = out.values();
    const auto g = tensors.grad[i]->values();
    const HeadLayout layout = s.layout();
    for (std::size_t j = 0; j < y.size(); ++j) {
      const std::int64_t dim = static_cast<std::int64_t>(j) % kHeadDim - layout.rotary_offset;
      if (dim >= 0 && dim < 2 * kPairs) sum += y[j] * g[j];
    }
  }
  return static_cast<double>(sum);
}

/// The slope of the loss along one number, by the central difference of fourth order. Its error is
/// h^4 / 30 times the fifth derivative, 12^5 at positions below 12, and that of rounding 1e-15 / h.
double slope(Setting s, const Tensors& tensors, const std::function<double&(Setting&)>& number) {
  constexpr double kStep = 0x1p-13;
  const double at = number(s);
  const auto there = [&](double steps) {
    number(s) = at + steps * kStep;
    return loss(s, tensors);
  };
  return (8.0 * (there(1.0) - there(-1.0)) - (there(2.0) - there(-2.0))) / (12.0 * kStep);
}

TEST(Gradient, MatchesFiniteDifferences) {
  const Tensors tensors({DType::kFloat64, DType::kFloat64});
  for (const Setting& s : settings()) {
    const Result got = run(Rope(s.f, s.layout()), s, tensors.operands());
    const auto sums = expected_of(s, tensors);  // for the sizes alone
    const auto near = [&](double a, double b, const Sum& sum, const std::string& what) {
      EXPECT_NEAR(a, b, 1e-9 * static_cast<double>(std::max(sum.size, 1.0L)))
          << s.name << ", " << what;
    };
    for (std::size_t i = 0; i < got.frequencies.size(); ++i) {
      near(got.frequencies[i],
           slope(s, tensors, [i](Setting& x) -> double& { return x.f.values[i]; }),
           sums.frequencies[i], "frequency " + std::to_string(i));
    }
    for (std::size_t i = 0; i < got.positions.size(); ++i) {
      near(got.positions[i],
           slope(s, tensors, [i](Setting& x) -> double& { return x.positions[i]; }),
           sums.positions[i], "position " + std::to_string(i));
    }
    near(got.scale, slope(s, tensors, [](Setting& x) -> double& { return x.f.scale; }), sums.scale,
         "scale");
  }
}

// <rotate(x), g> = <x, gradient of x>, over whole heads: outside the slice both are copies.
TEST(Gradient, OfTheTensorIsTheTranspose) {
  for (const Setting& s : settings()) {
    const Rope rope(s.f, s.layout());
    for (const DType dtype : kTypes) {
      const Tensors tensors({dtype, dtype});
      rope.gradient(tensors.operands(), s.view());
      for (std::size_t i = 0; i < tensors.in.size(); ++i) {
        const PlacedTensor rotated(Layout::kContiguous, dtype, tensors.in[i]->sizes(), 0);
        rope.rotate(tensors.in[i]->view(), rotated.view(), s.view());
        const auto y = rotated.values();
        const auto g = tensors.grad[i]->values();
        const auto x = tensors.in[i]->values();
        const auto grad_in = tensors.out[i]->values();
        const auto dot = [](const auto& a, const auto& b) {
          return std::inner_product(a.begin(), a.end(), b.begin(), 0.0L);
        };
        const auto length = [&dot](const auto& a) { return std::sqrt(dot(a, a)); };
        // By Cauchy the errors of y weigh |y| |g| at most, those of the gradient |x| |gradient|.
        const double allowed = size_of(dtype) == 2
                                   ? 0.51 * epsilon_of(dtype)
                                   : std::sqrt(2.0) * units_of(dtype) * epsilon_of(dtype);
        EXPECT_LE(std::fabs(dot(y, g) - dot(x, grad_in)),
                  static_cast<long double>(allowed) *
                      (length(y) * length(g) + length(x) * length(grad_in)))
            << s.name << ' ' << name_of(dtype);
        // It is the adjoint itself, to the bit.
        const PlacedTensor adjoint(Layout::kBackwards, dtype, tensors.in[i]->sizes(), 0);
        rope.adjoint(tensors.grad[i]->view(), adjoint.view(), s.view());
        EXPECT_EQ(tensors.out[i]->bits(), adjoint.bits()) << s.name << ' ' << name_of(dtype);
      }
    }
  }
}

}  // namespace
}  // namespace rotary
