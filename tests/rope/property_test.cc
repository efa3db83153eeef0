// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// Properties of rotary embeddings for every recipe, pairing and number of axes. With scale s and
// growth, R_m multiplies by z_m = s e^(g m) e^(i f m), hence R_m R_n = s R_(m+n); keys take the
// frequencies of with_inverse_growth().

#include <gtest/gtest.h>

#include <cmath>
#include <complex>
#include <cstdint>
#include <functional>
#include <numeric>
#include <string>
#include <type_traits>
#include <vector>

#include "rope/every_recipe.h"
#include "rotary/rope.h"

namespace rotary::property_test {
namespace {

template <typename T>
using Vector = std::vector<T>;
using Point = std::vector<double>;  // one coordinate per axis

/// Integer, fractional and negative points, one coordinate per axis.
Point point(std::int64_t axes, double first, double step) {
  Point result;
  for (std::int64_t a = 0; a < axes; ++a) result.push_back(first + step * static_cast<double>(a));
  return result;
}
Point sum(const Point& a, const Point& b) {
  Point result = a;
  for (std::size_t i = 0; i < b.size(); ++i) result[i] += b[i];
  return result;
}

template <typename T>
struct PropertyTest : testing::Test {
  /// A few roundings of numbers around 1, over 24 dims, and 1.8e-19 for each of 1000 positions.
  static constexpr double kTolerance = std::is_same_v<T, double> ? 4e-15 : 2e-6;
  static constexpr DType kType = std::is_same_v<T, double> ? DType::kFloat64 : DType::kFloat32;

  using Call = void (Rope::*)(const Operands&, const Positions&, Stream) const;

  static Vector<T> applied(Call call, const Rope& rope, Vector<T> x, const Point& at) {
    const auto width = static_cast<std::int64_t>(x.size());
    const auto axes = static_cast<std::int64_t>(at.size());
    (rope.*call)(TensorView::contiguous(x.data(), kType, {1, 1, width}),
                 Positions::ids(ConstTensorView::contiguous(at.data(), DType::kFloat64, {axes, 1})),
                 Stream{});
    return x;
  }
  static Vector<T> rotated(const Rope& rope, const Vector<T>& x, const Point& at) {
    return applied(&Rope::rotate, rope, x, at);
  }

  /// Irregular numbers between -1 and 1.
  static Vector<T> sample(int seed) {
    Vector<T> x(24);
    for (std::size_t i = 0; i < x.size(); ++i) {
      x[i] = static_cast<T>(std::sin(1.7 * static_cast<double>(i * i) + seed));
    }
    return x;
  }
  static double dot(const Vector<T>& a, const Vector<T>& b) {
    return std::inner_product(a.begin(), a.end(), b.begin(), 0.0, std::plus<>{}, [](T x, T y) {
      return static_cast<double>(x) * static_cast<double>(y);
    });
  }
  static void expect_close(const Vector<T>& got, const Vector<T>& expected, double factor = 1.0) {
    ASSERT_EQ(got.size(), expected.size());
    for (std::size_t i = 0; i < got.size(); ++i) {
      ASSERT_NEAR(static_cast<double>(got[i]), factor * static_cast<double>(expected[i]),
                  4.0 * kTolerance)
          << "element " << i;
    }
  }

  /// Runs a check for each recipe and pairing.
  using Check = std::function<void(const Rope& rope, const Frequencies& f)>;
  static void for_each_rope(const Check& check) {
    for (const auto& [name, frequencies] : every_recipe()) {
      for (const Pairing pairing : {Pairing::kInterleaved, Pairing::kHalf}) {
        SCOPED_TRACE(name + ", " + std::string(name_of(pairing)));
        const Rope rope(frequencies, {.head_dim = frequencies.rotary_dim(), .pairing = pairing});
        check(rope, frequencies);
        if (testing::Test::HasFatalFailure()) return;
      }
    }
  }
};

using Types = testing::Types<float, double>;
struct TypeName {
  template <typename T>
  static std::string GetName(int) {  // NOLINT: the name that GoogleTest asks for
    return std::is_same_v<T, double> ? "float64" : "float32";
  }
};
TYPED_TEST_SUITE(PropertyTest, Types, TypeName);

/// The two elements of a pair.
std::pair<std::size_t, std::size_t> members(const Rope& rope, std::int64_t pair) {
  const auto i = static_cast<std::size_t>(pair);
  if (*rope.layout().pairing == Pairing::kInterleaved) return {2 * i, 2 * i + 1};
  return {i, i + static_cast<std::size_t>(rope.frequencies().pairs)};
}

/// s e^(g m): the length of a rotated unit vector.
double size_at(const Frequencies& f, std::int64_t pair, const Point& at) {
  double exponent = 0.0;
  for (std::size_t a = 0; !f.growth.empty() && a < at.size(); ++a) {
    exponent += f.growth[static_cast<std::size_t>(pair * f.axes) + a] * (at[a] - f.growth_origin);
  }
  return f.scale * std::exp(exponent);
}
double angle_at(const Frequencies& f, std::int64_t pair, const Point& at) {
  long double angle = 0.0L;
  for (std::size_t a = 0; a < at.size(); ++a) {
    angle += static_cast<long double>(f(pair, static_cast<std::int64_t>(a))) *
             static_cast<long double>(at[a]);
  }
  return static_cast<double>(std::remainder(angle, 2.0L * 3.14159265358979323846264338327950288L));
}

TYPED_TEST(PropertyTest, NothingTurnsAtZero) {
  this->for_each_rope([](const Rope& rope, const Frequencies& f) {
    using Self = PropertyTest<TypeParam>;
    const auto x = Self::sample(1);
    const auto y = Self::rotated(rope, x, point(f.axes, 0.0, 0.0));
    const auto scale = static_cast<TypeParam>(f.scale);
    for (std::size_t i = 0; i < x.size(); ++i) ASSERT_EQ(y[i], x[i] * scale) << i;
  });
}

TYPED_TEST(PropertyTest, LengthIsKept) {
  this->for_each_rope([](const Rope& rope, const Frequencies& f) {
    using Self = PropertyTest<TypeParam>;
    const auto x = Self::sample(2);
    for (const Point& at : {point(f.axes, 977.0, -100.0), point(f.axes, -3.25, 1.375)}) {
      const auto y = Self::rotated(rope, x, at);
      for (std::int64_t pair = 0; pair < f.pairs; ++pair) {
        const auto [i, j] = members(rope, pair);
        ASSERT_NEAR(std::hypot(y[i], y[j]), size_at(f, pair, at) * std::hypot(x[i], x[j]),
                    Self::kTolerance)
            << pair;
      }
    }
  });
}

TYPED_TEST(PropertyTest, TurnsAdd) {
  this->for_each_rope([](const Rope& rope, const Frequencies& f) {
    using Self = PropertyTest<TypeParam>;
    const auto x = Self::sample(3);
    for (const auto& [m, n] : {std::pair{point(f.axes, 300.0, 17.0), point(f.axes, -41.0, 100.0)},
                               std::pair{point(f.axes, 0.5, 0.25), point(f.axes, 100.125, -9.0)}}) {
      const auto both = Self::rotated(rope, Self::rotated(rope, x, m), n);
      Self::expect_close(both, Self::rotated(rope, x, sum(m, n)), f.scale);
    }
  });
}

TYPED_TEST(PropertyTest, ScoresDependOnTheDistance) {
  this->for_each_rope([](const Rope& query, const Frequencies& f) {
    using Self = PropertyTest<TypeParam>;
    const Rope key(with_inverse_growth(f), query.layout());
    const auto q = Self::sample(4);
    const auto k = Self::sample(5);
    const Point m = point(f.axes, 10.0, 3.0);
    const Point n = point(f.axes, 4.0, -5.0);
    const double score = Self::dot(Self::rotated(query, q, m), Self::rotated(key, k, n));
    for (const double shift : {1.0, -700.0, 0.625, 900.0}) {
      const Point by = point(f.axes, shift, 0.5 * shift);
      EXPECT_NEAR(Self::dot(Self::rotated(query, q, sum(m, by)), Self::rotated(key, k, sum(n, by))),
                  score, 24.0 * Self::kTolerance)
          << shift;
    }
    // It does depend on it.
    const Point apart = point(f.axes, 3.0, 2.0);
    EXPECT_GT(
        std::fabs(Self::dot(Self::rotated(query, q, sum(m, apart)), Self::rotated(key, k, n)) -
                  score),
        1e-3);
  });
}

TYPED_TEST(PropertyTest, UnrotateUndoes) {
  this->for_each_rope([](const Rope& rope, const Frequencies& f) {
    using Self = PropertyTest<TypeParam>;
    const auto x = Self::sample(6);
    for (const Point& at : {point(f.axes, 977.0, -100.0), point(f.axes, -3.25, 1.375)}) {
      const auto there = Self::rotated(rope, x, at);
      Self::expect_close(Self::applied(&Rope::unrotate, rope, there, at), x);
      const auto back = Self::applied(&Rope::unrotate, rope, x, at);
      Self::expect_close(Self::rotated(rope, back, at), x);
    }
  });
}

TYPED_TEST(PropertyTest, AdjointIsTheTranspose) {
  this->for_each_rope([](const Rope& rope, const Frequencies& f) {
    using Self = PropertyTest<TypeParam>;
    const auto x = Self::sample(7);
    const auto y = Self::sample(8);
    for (const Point& at : {point(f.axes, 977.0, -100.0), point(f.axes, -3.25, 1.375)}) {
      const double left = Self::dot(Self::rotated(rope, x, at), y);
      const double right = Self::dot(x, Self::applied(&Rope::adjoint, rope, y, at));
      EXPECT_NEAR(left, right, 24.0 * Self::kTolerance);
    }
  });
}

// The three formulas of the rotation: a block-diagonal matrix, a complex product, and
// x * cos + rotate(x) * sin with cos and sin repeated for both elements of a pair.
TYPED_TEST(PropertyTest, EquivalentForms) {
  this->for_each_rope([](const Rope& rope, const Frequencies& f) {
    using Self = PropertyTest<TypeParam>;
    const auto x = Self::sample(9);
    const std::size_t width = x.size();
    for (const Point& at : {point(f.axes, 977.0, -100.0), point(f.axes, -3.25, 1.375)}) {
      Vector<double> matrix(width * width, 0.0);
      Vector<TypeParam> by_complex(width);
      Vector<double> cos(width);
      Vector<double> sin(width);
      Vector<double> turned(width);  // rotate(x): (-y, x) in place of (x, y)
      for (std::int64_t pair = 0; pair < f.pairs; ++pair) {
        const auto [i, j] = members(rope, pair);
        const auto z = std::polar(size_at(f, pair, at), angle_at(f, pair, at));
        matrix[i * width + i] = matrix[j * width + j] = z.real();
        matrix[i * width + j] = -z.imag();
        matrix[j * width + i] = z.imag();
        const auto w =
            z * std::complex<double>(static_cast<double>(x[i]), static_cast<double>(x[j]));
        by_complex[i] = static_cast<TypeParam>(w.real());
        by_complex[j] = static_cast<TypeParam>(w.imag());
        cos[i] = cos[j] = z.real();
        sin[i] = sin[j] = z.imag();
        turned[i] = -static_cast<double>(x[j]);
        turned[j] = static_cast<double>(x[i]);
      }
      Vector<TypeParam> by_matrix(width);
      Vector<TypeParam> by_element(width);
      for (std::size_t i = 0; i < width; ++i) {
        double row = 0.0;
        for (std::size_t j = 0; j < width; ++j)
          row += matrix[i * width + j] * static_cast<double>(x[j]);
        by_matrix[i] = static_cast<TypeParam>(row);
        by_element[i] =
            static_cast<TypeParam>(static_cast<double>(x[i]) * cos[i] + turned[i] * sin[i]);
      }
      const auto y = Self::rotated(rope, x, at);
      Self::expect_close(y, by_matrix);
      Self::expect_close(y, by_complex);
      Self::expect_close(y, by_element);
    }
  });
}

}  // namespace
}  // namespace rotary::property_test
