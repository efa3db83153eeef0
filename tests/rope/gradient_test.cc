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
#include <numeric>
#include <string>
#include <vector>

#include "rope/expect_rotation.h"
#include "rope/gradient_case.h"
#include "rope/placed_tensor.h"
#include "rotary/rope.h"

namespace rotary::gradient_test {
namespace {

using namespace gradient_case;  // NOLINT: it is one test in two files

constexpr DType kTypes[] = {DType::kFloat32, DType::kFloat64, DType::kBFloat16, DType::kFloat16};

Result run(const Rope& rope, const Setting& s, const std::vector<GradientOperand>& operands) {
  Result result{std::vector<double>(s.f.values.size(), -1.0), {}, -1.0};
  // Strides of the gradient of positions: every second element, backwards.
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

TEST(Gradient, MatchesTheFormula) {
  for (const Setting& s : settings()) {
    const Rope rope(s.f, s.layout());
    for (const std::vector<DType>& types : operand_types()) {
      const Tensors tensors(types);
      expect_near(s, types, run(rope, s, tensors.operands()), expected_of(s, tensors));
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

/// The derivative of the loss by one number, by a central difference of fourth order. Its error is
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
        // It equals the adjoint, bit for bit.
        const PlacedTensor adjoint(Layout::kBackwards, dtype, tensors.in[i]->sizes(), 0);
        rope.adjoint(tensors.grad[i]->view(), adjoint.view(), s.view());
        EXPECT_EQ(tensors.out[i]->bits(), adjoint.bits()) << s.name << ' ' << name_of(dtype);
      }
    }
  }
}

}  // namespace
}  // namespace rotary::gradient_test
