// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// Wavelengths, scores of equal vectors, RoFormer's decay bound, the receptive field's factors.

#include <cmath>
#include <complex>
#include <cstddef>
#include <numbers>
#include <variant>

#include "analysis/checks.h"
#include "rotary/analysis.h"
#include "support/portable_cos_sin.h"

namespace rotary {
namespace {

/// The norm over the axes of one pair's frequencies.
double speed_of(const Frequencies& f, std::int64_t pair) {
  double squares = 0.0;
  for (std::int64_t axis = 0; axis < f.axes; ++axis) squares += f(pair, axis) * f(pair, axis);
  return std::sqrt(squares);
}

/// (g + i f) x of a pair at an offset of `axes` coordinates.
std::complex<double> exponent(const Frequencies& f, std::int64_t pair, const double* offset) {
  double growth = 0.0;
  double angle = 0.0;
  for (std::int64_t axis = 0; axis < f.axes; ++axis) {
    const auto at = static_cast<std::size_t>(pair * f.axes + axis);
    angle += f.values[at] * offset[axis];
    if (!f.growth.empty()) growth += f.growth[at] * offset[axis];
  }
  return {growth, angle};
}

std::size_t count_offsets(const char* function, const Frequencies& f,
                          std::span<const double> offsets) {
  internal::require_frequencies(function, f);
  const auto axes = static_cast<std::size_t>(f.axes);
  if (offsets.size() % axes != 0) {
    internal::reject("[", function, "] offsets must be [n x ", axes, " axes], got ", offsets.size(),
                     " values");
  }
  return offsets.size() / axes;
}

std::vector<double> weights_or_equal(const char* function, const Frequencies& f,
                                     std::span<const double> weights) {
  const auto pairs = static_cast<std::size_t>(f.pairs);
  if (weights.empty()) return std::vector<double>(pairs, 1.0 / static_cast<double>(pairs));
  if (weights.size() != pairs) {
    internal::reject("[", function, "] weights must be one per pair, ", pairs, ", got ",
                     weights.size());
  }
  return {weights.begin(), weights.end()};
}

}  // namespace

std::vector<double> wavelengths(const Frequencies& frequencies) {
  internal::require_frequencies("wavelengths", frequencies);
  std::vector<double> lengths;
  lengths.reserve(static_cast<std::size_t>(frequencies.pairs));
  for (std::int64_t pair = 0; pair < frequencies.pairs; ++pair) {
    lengths.push_back(2.0 * std::numbers::pi / speed_of(frequencies, pair));
  }
  return lengths;
}

std::vector<double> turns(const Frequencies& frequencies, std::int64_t context) {
  internal::require_range("turns", "context", context, 0, internal::kMaxAnalysisPosition);
  std::vector<double> result = wavelengths(frequencies);
  for (double& length : result) length = static_cast<double>(context) / length;
  return result;
}

std::vector<double> relative_scores(const Frequencies& frequencies, std::span<const double> offsets,
                                    std::span<const double> weights) {
  const std::size_t n = count_offsets("relative_scores", frequencies, offsets);
  const std::vector<double> w = weights_or_equal("relative_scores", frequencies, weights);
  std::vector<double> scores(n, 0.0);
  for (std::size_t k = 0; k < n; ++k) {
    const double* offset = offsets.data() + k * static_cast<std::size_t>(frequencies.axes);
    for (std::int64_t pair = 0; pair < frequencies.pairs; ++pair) {
      const std::complex<double> z = exponent(frequencies, pair, offset);
      scores[k] += w[static_cast<std::size_t>(pair)] * std::exp(z.real()) *
                   internal::portable_cos_sin(z.imag()).cos;
    }
  }
  return scores;
}

std::vector<double> decay(const Frequencies& frequencies, std::span<const double> offsets) {
  const std::size_t n = count_offsets("decay", frequencies, offsets);
  std::vector<double> bounds(n, 0.0);
  for (std::size_t k = 0; k < n; ++k) {
    const double* offset = offsets.data() + k * static_cast<std::size_t>(frequencies.axes);
    std::complex<double> sum = 0.0;
    for (std::int64_t pair = 0; pair < frequencies.pairs; ++pair) {
      const std::complex<double> z = exponent(frequencies, pair, offset);
      const auto [c, s] = internal::portable_cos_sin(z.imag());
      sum += std::exp(z.real()) * std::complex<double>(c, s);
      bounds[k] += std::sqrt(std::norm(sum));  // as on every machine, which hypot is not
    }
    bounds[k] /= static_cast<double>(frequencies.pairs);
  }
  return bounds;
}

ReceptiveFieldScores receptive_field_scores(const Recipe& recipe, std::span<const double> distances,
                                            std::span<const double> weights) {
  const auto* field = std::get_if<ReceptiveField>(&recipe.scaling);
  if (field == nullptr || !std::holds_alternative<OneAxis>(recipe.axes)) {
    internal::reject("[receptive_field_scores] the recipe must be a receptive field on one axis");
  }
  // (1 - alpha) f_i: the ladder without the common frequency. Sign and gain apply to both.
  Recipe plain = recipe;
  plain.scaling = Plain{};
  Frequencies own = make_frequencies(plain);
  for (double& f : own.values) f *= 1.0 - field->alpha;
  const double sign = recipe.direction == RotationDirection::kBackward ? -1.0 : 1.0;
  ReceptiveFieldScores result{.phi = sign * recipe.gain * field->alpha /
                                     std::pow(10000.0, field->rho)};
  const std::vector<double> w = weights_or_equal("receptive_field_scores", own, weights);
  for (const double x : distances) {
    double a = 0.0;
    double b = 0.0;
    for (std::int64_t pair = 0; pair < own.pairs; ++pair) {
      const auto [c, s] = internal::portable_cos_sin(own(pair) * x);
      a += w[static_cast<std::size_t>(pair)] * c;
      b += w[static_cast<std::size_t>(pair)] * s;
    }
    result.a.push_back(a);
    result.b.push_back(b);
  }
  return result;
}

}  // namespace rotary
