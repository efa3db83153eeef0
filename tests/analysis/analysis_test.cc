// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// Scores, decay, critical dimension, receptive field and the precision of angles.

#include "rotary/analysis.h"

#include <gtest/gtest.h>

#include <cmath>
#include <complex>
#include <numbers>
#include <vector>

#include "reference/real.h"

namespace rotary {
namespace {

using reference::Real;

const std::vector<double> kDistances = {0, 1, 2, 17, 100, 1000, 4095};

TEST(Analysis, CriticalDimensionOfModels) {
  const auto dims = [](double theta, std::int64_t context) {
    return critical_dim(make_frequencies({.rotary_dim = 128, .theta = theta}), context);
  };
  EXPECT_EQ(dims(1e4, 4096), 92);   // Llama 2, as published
  EXPECT_EQ(dims(5e5, 8192), 70);   // Llama 3
  EXPECT_EQ(dims(1e6, 32768), 80);  // Qwen2.5
  EXPECT_EQ(dims(1e4, 6), 0);
  EXPECT_NEAR(extrapolation_limit(1e6, 128, 92), 129027, 1);
}

TEST(Analysis, TurnsAndWavelengths) {
  const Frequencies f{.pairs = 3, .axes = 2, .values = {3, 4, 0, 0.5, 0, 0}};
  const std::vector<double> lengths = wavelengths(f);
  EXPECT_DOUBLE_EQ(lengths[0], 2 * std::numbers::pi / 5);
  EXPECT_DOUBLE_EQ(lengths[1], 4 * std::numbers::pi);
  EXPECT_TRUE(std::isinf(lengths[2]));
  const std::vector<double> count = turns(f, 1000);
  EXPECT_DOUBLE_EQ(count[1], 1000 / (4 * std::numbers::pi));
  EXPECT_EQ(count[2], 0.0);
}

TEST(Analysis, ScoresOfEqualVectors) {
  const Frequencies f = make_frequencies({.rotary_dim = 8, .theta = 100});
  const std::vector<double> weights = {1, 2, 3, 4};
  const std::vector<double> equal = relative_scores(f, kDistances);
  const std::vector<double> weighted = relative_scores(f, kDistances, weights);
  EXPECT_EQ(equal[0], 1.0);
  EXPECT_EQ(weighted[0], 10.0);
  for (std::size_t k = 0; k < kDistances.size(); ++k) {
    double sum = 0.0;
    for (std::size_t i = 0; i < 4; ++i) sum += weights[i] * std::cos(kDistances[k] * f.values[i]);
    EXPECT_NEAR(weighted[k], sum, 1e-12);
  }
}

// xPos: the score of a key m positions before the query shrinks by zeta_i^(m/512).
TEST(Analysis, XposScoresHaveItsGrowth) {
  const Frequencies f = make_frequencies({.rotary_dim = 8, .theta = 100, .scaling = Xpos{}});
  const std::vector<double> scores = relative_scores(f, kDistances);
  const std::vector<double> bounds = decay(f, kDistances);
  for (std::size_t k = 0; k < kDistances.size(); ++k) {
    const double m = kDistances[k];
    double sum = 0.0;
    double bound = 0.0;
    std::complex<double> partial = 0.0;
    for (std::size_t i = 0; i < 4; ++i) {
      const double zeta = (static_cast<double>(i) / 4.0 + 0.4) / 1.4;
      sum += std::pow(zeta, m / 512.0) * std::cos(m * f.values[i]) / 4.0;
      partial += std::polar(std::pow(zeta, m / 512.0), m * f.values[i]);
      bound += std::abs(partial) / 4.0;
    }
    EXPECT_NEAR(scores[k], sum, 1e-12) << m;
    EXPECT_NEAR(bounds[k], bound, 1e-12) << m;
  }
}

// |sum_i h_i e^(i m f_i)| <= max |h_(i+1) - h_i| * pairs * decay(m), with h_pairs = 0.
TEST(Analysis, DecayBoundsScoresButIsNotMonotone) {
  const Frequencies f = make_frequencies({.rotary_dim = 16, .theta = 1e4});
  std::vector<double> distances(400);
  for (std::size_t m = 0; m < distances.size(); ++m) distances[m] = static_cast<double>(m);
  const std::vector<double> bounds = decay(f, distances);
  EXPECT_DOUBLE_EQ(bounds[0], 4.5);  // the mean of 1 .. 8
  const std::vector<double> h = {1, -0.5, 2, 0.25, 1, 1, -3, 0.5};
  const std::vector<double> scores = relative_scores(f, distances, h);
  double step = std::fabs(h.back());
  for (std::size_t i = 1; i < h.size(); ++i) step = std::max(step, std::fabs(h[i] - h[i - 1]));
  bool rises = false;
  for (std::size_t m = 0; m < distances.size(); ++m) {
    EXPECT_LE(std::fabs(scores[m]), step * 8.0 * bounds[m] + 1e-12) << m;
    rises = rises || (m > 0 && bounds[m] > bounds[m - 1]);
  }
  EXPECT_TRUE(rises);
}

TEST(Analysis, ReceptiveFieldIdentity) {
  for (const auto direction : {RotationDirection::kForward, RotationDirection::kBackward}) {
    const Recipe recipe{.rotary_dim = 32,
                        .theta = 1e4,
                        .scaling = ReceptiveField{.alpha = 0.3, .rho = 0.5},
                        .direction = direction};
    const ReceptiveFieldScores parts = receptive_field_scores(recipe, kDistances);
    const std::vector<double> scores = relative_scores(make_frequencies(recipe), kDistances);
    for (std::size_t k = 0; k < kDistances.size(); ++k) {
      const double angle = parts.phi * kDistances[k];
      EXPECT_NEAR(scores[k], std::cos(angle) * parts.a[k] - std::sin(angle) * parts.b[k], 1e-11);
    }
  }
  EXPECT_THROW(receptive_field_scores({.rotary_dim = 32, .theta = 1e4}, kDistances),
               std::invalid_argument);
}

// One pair: the plane is the pair's own circle, up to an isometry.
TEST(Analysis, PlaneOfOnePairIsACircle) {
  const Frequencies f{.pairs = 1, .values = {2 * std::numbers::pi / 12}};
  std::vector<double> positions(12);
  for (std::size_t m = 0; m < 12; ++m) positions[m] = static_cast<double>(m);
  const std::vector<double> plane = position_plane(f, positions);
  ASSERT_EQ(plane.size(), 24U);
  for (std::size_t m = 0; m < 12; ++m) {
    EXPECT_NEAR(std::hypot(plane[2 * m], plane[2 * m + 1]), 1.0, 1e-9);
    const std::size_t next = (m + 1) % 12;
    EXPECT_NEAR(std::hypot(plane[2 * m] - plane[2 * next], plane[2 * m + 1] - plane[2 * next + 1]),
                2 * std::sin(std::numbers::pi / 12), 1e-9);
  }
}

// The two axes of many pairs: orthogonal, of decreasing variance, and no other direction has more.
TEST(Analysis, PlaneHasTheLargestVariance) {
  const Frequencies f = make_frequencies({.rotary_dim = 32, .theta = 1e4});
  std::vector<double> positions(200);
  for (std::size_t m = 0; m < 200; ++m) positions[m] = static_cast<double>(m);
  const std::vector<double> plane = position_plane(f, positions);
  double xx = 0.0;
  double xy = 0.0;
  double yy = 0.0;
  for (std::size_t m = 0; m < 200; ++m) {
    xx += plane[2 * m] * plane[2 * m];
    xy += plane[2 * m] * plane[2 * m + 1];
    yy += plane[2 * m + 1] * plane[2 * m + 1];
  }
  EXPECT_GE(xx, yy);
  EXPECT_NEAR(xy / xx, 0.0, 1e-5);
  for (std::size_t i = 0; i < 16; ++i) {  // the coordinate axes
    double mean = 0.0;
    double squares = 0.0;
    for (const double m : positions) mean += std::cos(m * f.values[i]) / 200;
    for (const double m : positions) squares += std::pow(std::cos(m * f.values[i]) - mean, 2);
    EXPECT_LE(squares, xx * (1 + 1e-9)) << i;
  }
}

TEST(Analysis, SumOfCosinesIsWithinItsError) {
  const Frequencies f = make_frequencies({.rotary_dim = 64, .theta = 1e4});
  for (const std::int64_t context : {0, 1, 63, 64, 65, 300}) {
    const CosineMinimum minimum = smallest_cosine_sum(f, context);
    Real smallest(1e9);
    for (std::int64_t m = 0; m <= context; ++m) {
      Real sum(0.0);
      for (const double value : f.values) sum = sum + cos(Real(m) * Real(value));
      if (m == minimum.distance) {
        EXPECT_LE(abs(sum - Real(minimum.value)), Real(minimum.error)) << context;
      }
      if (sum < smallest) smallest = sum;
    }
    EXPECT_LE(abs(smallest - Real(minimum.value)), Real(2 * minimum.error)) << context;
  }
}

TEST(Analysis, AngleErrors) {
  const Frequencies f = make_frequencies({.rotary_dim = 128, .theta = 5e5});
  const std::vector<std::int64_t> positions = {0, 1, 1000, 131071, 1048575};
  const auto errors = [&](AngleMethod method) { return angle_errors(f, method, positions); };
  const auto single = errors(AngleMethod::kFloat32);
  const auto table = errors(AngleMethod::kBfloat16Table);
  const auto cast = errors(AngleMethod::kBfloat16Angle);
  const auto fast = errors(AngleMethod::kFastMath);
  EXPECT_EQ(single[0].angle, 0.0);
  EXPECT_EQ(table[0].value, 0.0);
  for (std::size_t k = 1; k < positions.size(); ++k) {
    const auto p = static_cast<double>(positions[k]);
    EXPECT_LE(single[k].angle, p * 0x1p-23);
    EXPECT_LE(single[k].value, single[k].angle * 1.0001 + 1e-16);
    EXPECT_GT(table[k].value, 0x1p-10);  // bfloat16 has 8 bits: half an ulp below 1 is 2^-9
    EXPECT_LE(table[k].value, 0x1p-9 + single[k].angle);
    EXPECT_LE(cast[k].angle, p * 0x1p-7);
    EXPECT_LE(fast[k].angle, p * 0x1p-22);
  }
  // docs/numerics.md: float32 angles are off by 8e-3 at 131,072.
  EXPECT_GT(single[3].angle, 1e-3);
  EXPECT_GT(cast[3].angle, 1.0);
  // The exact product, in 256 bits.
  const float frequency = static_cast<float>(f(single[3].pair));
  const float angle = frequency * 131071.0F;
  const Real gap = abs(Real(static_cast<double>(angle)) - Real(131071) * Real(f(single[3].pair)));
  EXPECT_NEAR(single[3].angle, static_cast<double>(gap), 1e-12);
}

TEST(Analysis, Rejects) {
  const Frequencies two{.pairs = 1, .axes = 2, .values = {1, 1}};
  const std::vector<double> three = {1, 2, 3};
  const std::vector<std::int64_t> far = {std::int64_t{1} << 41};
  EXPECT_THROW(relative_scores(two, three), std::invalid_argument);
  EXPECT_THROW(decay(two, three), std::invalid_argument);
  EXPECT_THROW(negative_distance(two, 8), std::invalid_argument);
  EXPECT_THROW(angle_errors(two, AngleMethod::kFloat32, {}), std::invalid_argument);
  EXPECT_THROW(wavelengths(Frequencies{}), std::invalid_argument);
  const Frequencies one = make_frequencies({.rotary_dim = 4, .theta = 10});
  EXPECT_THROW(relative_scores(one, three, three), std::invalid_argument);
  EXPECT_THROW(angle_errors(one, AngleMethod::kFloat32, far), std::invalid_argument);
  EXPECT_THROW(critical_dim(one, 0), std::invalid_argument);
  EXPECT_THROW(turns(one, -1), std::invalid_argument);
  EXPECT_THROW(extrapolation_limit(0.0, 128, 92), std::invalid_argument);
  EXPECT_THROW(smallest_cosine_sum(one, -1), std::invalid_argument);
}

}  // namespace
}  // namespace rotary
