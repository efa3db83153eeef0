// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// The smallest base whose sum of cosines is not negative at any distance of a context (Xu et al.,
// "Base of RoPE bounds context length", arXiv 2405.14591, equation 11), with a proof.
//
// The search marches upwards in t = ln(base) from 0. At t it looks for a distance m with
// B(m, t) = sum_i cos(m f_i(t)) < 0. Since f_i = c_i exp(-e_i t), e_i = 2i/d,
//   |dB/dt| <= m sum_i e_i |f_i|,
// which only falls with t, B(m, .) stays negative over a step of -B / (m sum_i e_i |f_i|): every
// base on the way fails at m. Where no step is left, a root of B has been reached, and the base
// just above it passes, or fails at another distance.

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <utility>
#include <variant>

#include "analysis/checks.h"
#include "analysis/cosine_sums.h"
#include "rotary/analysis.h"

namespace rotary {
namespace {

using internal::CosineSums;

constexpr double kMaxBase = 1e15;
constexpr double kRelativeWidth = 1e-9;
// A step below this is none: it is well above the rounding of t, and the width is well above it.
constexpr double kMinStep = 1e-3 * kRelativeWidth;
// Errors of frequencies: made by make_frequencies(), and as c exp(-e t) in double with e t <= 35,
// which is c's, and about 73 units of 2^-53.
constexpr double kMadeError = 0x1p-49;
constexpr double kExponentialError = 0x1p-46;

/// True if f_i is proportional to theta^(-2i/d).
bool is_power_of_base(const Recipe& recipe) {
  if (recipe.wavelengths != Wavelengths::kExact) return false;
  return std::visit(
      [](const auto& scaling) {
        using T = std::decay_t<decltype(scaling)>;
        return std::is_same_v<T, Plain> || std::is_same_v<T, Linear> || std::is_same_v<T, Ntk> ||
               std::is_same_v<T, NtkAlpha> || std::is_same_v<T, DynamicNtk> ||
               std::is_same_v<T, LongRope> || std::is_same_v<T, Proportional> ||
               std::is_same_v<T, Divisors> || std::is_same_v<T, Learnable>;
      },
      recipe.scaling);
}

std::vector<double> frequencies_at(const Recipe& recipe, double base, std::int64_t context) {
  Recipe other = recipe;
  other.theta = base;
  return make_frequencies(other, context).values;
}

/// Passes only if no sum over the context can be negative. `minimum` is the smallest sum, or the
/// first that is certainly negative.
struct Verdict {
  bool passes = true;
  CosineMinimum minimum{};
};

Verdict check_base(CosineSums sums, std::int64_t pairs, std::int64_t context) {
  Verdict verdict{.minimum = {.value = static_cast<double>(pairs)}};
  for (std::int64_t first = 1; first <= context; first += CosineSums::kBlock) {
    const CosineSums::Block block = sums.block(first);
    for (std::size_t j = 0; j < block.size(); ++j) {
      const std::int64_t m = first + static_cast<std::int64_t>(j);
      if (m > context) break;
      if (block[j] - sums.error(m) < 0.0) verdict.passes = false;
      if (block[j] < verdict.minimum.value) {
        verdict.minimum = {.value = block[j], .distance = m, .error = sums.error(m)};
      }
      if (block[j] + sums.error(m) < 0.0) return verdict;
    }
  }
  return verdict;
}

/// A distance that fails, and the range of t for which it does.
struct Step {
  std::int64_t distance = 0;
  double length = 0.0;
};

/// The sums at one t.
class Point {
 public:
  Point(const std::vector<double>& coefficients, double dim, double t) : sums_({}, 0.0) {
    std::vector<double> frequencies(coefficients.size());
    for (std::size_t i = 0; i < coefficients.size(); ++i) {
      const double exponent = 2.0 * static_cast<double>(i) / dim;
      frequencies[i] = coefficients[i] * std::exp(-exponent * t);
      slope_ += exponent * std::fabs(frequencies[i]);
    }
    slope_ *= 1.0 + 1e-12;  // its own rounding
    sums_ = CosineSums(std::move(frequencies), kExponentialError);
  }

  double step(std::int64_t distance) const { return step(distance, sums_.at(distance)); }

  /// Improves `best` by the distances around it: dips of B move slowly with t, and repeat with the
  /// fastest pair's wavelength of 6.28.
  Step best_near(Step best, std::int64_t context) const {
    const std::int64_t centre = best.distance;
    const auto consider = [&](std::int64_t m) {
      if (m < 1 || m > context) return;
      if (const double length = step(m); length > best.length) best = {m, length};
    };
    for (std::int64_t m = centre - 13; m <= centre + 14; ++m) consider(m);
    for (const std::int64_t offset : {-44, 19, 22, 25, 44}) consider(centre + offset);
    return best;
  }

  /// A long step if there is one, else the longest, over all distances, beginning at `from`.
  Step search(std::int64_t from, std::int64_t context) {
    constexpr std::int64_t kBlock = CosineSums::kBlock;
    const std::int64_t blocks = (context + kBlock - 1) / kBlock;
    Step best;
    for (std::int64_t k = 0; k < blocks; ++k) {
      const std::int64_t first = ((from - 1) / kBlock + k) % blocks * kBlock + 1;
      const CosineSums::Block block = sums_.block(first);
      for (std::size_t j = 0; j < block.size(); ++j) {
        const std::int64_t m = first + static_cast<std::int64_t>(j);
        if (m > context) break;
        if (const double length = step(m, block[j]); length > best.length) best = {m, length};
      }
      if (best.distance != 0 && is_long(best)) break;
    }
    return best;
  }

  static bool is_long(const Step& step) {
    return step.length * static_cast<double>(step.distance) > 0.02;
  }

 private:
  double step(std::int64_t distance, double sum) const {
    const double highest = sum + sums_.error(distance);
    return highest < 0.0 ? -highest / (static_cast<double>(distance) * slope_) : 0.0;
  }

  CosineSums sums_;
  double slope_ = 0.0;
};

class IntervalSearch {
 public:
  IntervalSearch(const Recipe& recipe, std::int64_t context)
      : recipe_(recipe),
        context_(context),
        dim_(static_cast<double>(recipe.ladder_dim != 0 ? recipe.ladder_dim : recipe.rotary_dim)),
        coefficients_(frequencies_at(recipe, 1.0, context)) {}

  BaseBound run() {
    const double end = std::log(kMaxBase);
    while (t_ < end) {
      const Step step = next_step();
      if (step.length < kMinStep) {
        if (passes_above()) return std::move(result_);
        continue;
      }
      const double from = std::exp(t_);
      t_ += 0.99 * step.length;
      result_.proof.push_back({.from = from, .to = std::exp(t_), .distance = step.distance});
    }
    internal::reject("[smallest_base] no base up to ", kMaxBase, " serves a context of ", context_);
  }

 private:
  Step next_step() {
    Point point(coefficients_, dim_, t_);
    Step step{distance_, point.step(distance_)};
    if (step.length < 0.5 * chosen_) {
      step = point.best_near(step, context_);
      // A search costs as much as a thousand steps: not again until steps have halved.
      const bool is_stuck = step.length < kMinStep;
      if (!Point::is_long(step) && (is_stuck || step.length < 0.5 * searched_)) {
        if (const Step found = point.search(step.distance, context_); found.length > step.length) {
          step = found;
        }
        searched_ = step.length;
      }
      chosen_ = step.length;
    }
    distance_ = step.distance;
    return step;
  }

  /// Moves past the root at t. True if the base there passes: then it is the result.
  bool passes_above() {
    const double lower = std::exp(t_);
    t_ += kRelativeWidth;
    const double base = std::exp(t_);
    const Verdict verdict =
        check_base(CosineSums(frequencies_at(recipe_, base, context_), kMadeError),
                   static_cast<std::int64_t>(coefficients_.size()), context_);
    if (verdict.passes) {
      result_.base = base;
      result_.lower = lower * (1.0 - 1e-15);
      result_.distance = distance_;
      result_.minimum = verdict.minimum;
      return true;
    }
    result_.undecided.push_back(lower);
    distance_ = verdict.minimum.distance;
    chosen_ = searched_ = kNoStep;
    return false;
  }

  static constexpr double kNoStep = 1e300;  // any step is less than half of it

  const Recipe& recipe_;
  std::int64_t context_;
  double dim_;
  std::vector<double> coefficients_;  // c_i
  double t_ = 0.0;
  std::int64_t distance_ = 1;
  double chosen_ = kNoStep;    // the step when its distance was chosen
  double searched_ = kNoStep;  // the step after the last search of all distances
  BaseBound result_{};
};

BaseBound grid_search(const Recipe& recipe, std::int64_t context) {
  constexpr double kRatio = 1.01;
  BaseBound result{.interval_proof = false};
  for (double base = kRatio; base < kMaxBase; base *= kRatio) {
    const std::vector<double> frequencies = frequencies_at(recipe, base, context);
    const auto pairs = static_cast<std::int64_t>(frequencies.size());
    const Verdict verdict = check_base(CosineSums(frequencies, kMadeError), pairs, context);
    if (verdict.passes) {
      result.base = base;
      result.minimum = verdict.minimum;
      return result;
    }
    if (verdict.minimum.value + verdict.minimum.error >= 0.0) result.undecided.push_back(base);
    result.lower = base;
    result.distance = verdict.minimum.distance;
    result.proof.push_back({.from = base, .to = base, .distance = result.distance});
  }
  internal::reject("[smallest_base] no base up to ", kMaxBase, " serves a context of ", context);
}

}  // namespace

BaseBound smallest_base(const Recipe& recipe, std::int64_t context) {
  internal::require_range("smallest_base", "context", context, 1, std::int64_t{1} << 24);
  if (!std::holds_alternative<OneAxis>(recipe.axes)) {
    internal::reject("[smallest_base] the recipe must have one axis, got ", axes_of(recipe.axes));
  }
  if (std::holds_alternative<Xpos>(recipe.scaling)) {
    internal::reject("[smallest_base] a rotation with growth (xPos) has no sum of cosines");
  }
  if (recipe.rotary_dim < 4) {
    internal::reject("[smallest_base] rotary_dim must be at least 4, got ", recipe.rotary_dim);
  }
  return is_power_of_base(recipe) ? IntervalSearch(recipe, context).run()
                                  : grid_search(recipe, context);
}

}  // namespace rotary
