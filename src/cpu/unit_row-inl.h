// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// Per target: cos and sin of the phases of one token, z / |z|, from its positions; and the factor
// |z| of scale and growth.

#if defined(ROTARY_CPU_UNIT_ROW_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef ROTARY_CPU_UNIT_ROW_INL_H
#undef ROTARY_CPU_UNIT_ROW_INL_H
#else
#define ROTARY_CPU_UNIT_ROW_INL_H
#endif

#include <hwy/highway.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>

#include "cpu/cos_sin-inl.h"
#include "cpu/vectors-inl.h"
#include "engine/kernel.h"

HWY_BEFORE_NAMESPACE();
namespace rotary::internal::HWY_NAMESPACE {

/// The position of a token on each axis.
struct AxisPositions {
  Position at[kMaxAxes];
  FixedPosition fixed[kMaxAxes];
  bool is_one_integer;  // the same integer on all axes: fixed[0].count says it all
};

HWY_INLINE void read_axis_positions(const Positions& positions, PositionReader& reader,
                                    std::int64_t axes, std::int64_t batch, std::int64_t token,
                                    AxisPositions& result) {
  const bool same_on_all_axes = axes == 1 || positions.same_on_all_axes();
  for (std::int64_t a = 0; a < axes; ++a) {
    const bool again = same_on_all_axes && a > 0;
    const Position p = again ? result.at[0] : reader.at(a, batch, token);
    result.at[a] = p;
    result.fixed[a] = p.is_real ? to_fixed(p.real) : to_fixed(p.integer);
  }
  result.is_one_integer = same_on_all_axes && !result.at[0].is_real;
}

/// Adds (kSign 1) or subtracts (kSign -1) the phases of the pairs first .. first + count - 1.
template <int kSign>
HWY_INLINE void add_phases(const PhaseTable& table, const AxisPositions& positions,
                           std::int64_t first, std::size_t count,
                           std::uint64_t* HWY_RESTRICT phases) {
  constexpr auto kFactor = static_cast<std::uint64_t>(std::int64_t{kSign});
  if (positions.is_one_integer) {
    const std::uint64_t position = kFactor * positions.fixed[0].count;
    const std::uint64_t* HWY_RESTRICT sums = table.sums.data() + first;
    for (std::size_t i = 0; i < count; ++i) phases[i] += position * sums[i];
    return;
  }
  for (std::int64_t a = 0; a < table.axes; ++a) {
    const FixedPosition& x = positions.fixed[a];
    const std::uint64_t* HWY_RESTRICT fractions = table.fractions.data() + a * table.pairs + first;
    const std::uint64_t position = x.negative ? ~(kFactor * x.count) + 1 : kFactor * x.count;
    for (std::size_t i = 0; i < count; ++i) phases[i] += position * fractions[i];
    if (x.rest == 0) continue;
    const std::uint64_t* wholes = table.wholes.data() + a * table.pairs + first;
    const std::uint64_t sign = x.negative ? ~kFactor + 1 : kFactor;
    for (std::size_t i = 0; i < count; ++i) {
      phases[i] += sign * (multiply_high(x.rest, fractions[i]) + x.rest * wholes[i]);
    }
  }
}

/// Precision::kReference: cos and sin of the float32 angle that transformers computes. They are
/// evaluated in double, so that the float32 results are correctly rounded on every platform.
inline CosSin<double> reference_cos_sin(const PhaseTable& table, const AxisPositions& positions,
                                        std::int64_t pair) {
  float angle = 0.0f;
  for (std::int64_t a = 0; a < table.axes; ++a) {
    const float f = table.radians[static_cast<std::size_t>(a * table.pairs + pair)];
    if (f != 0.0f) angle += f * static_cast<float>(positions.at[a].real);
  }
  const auto rounded = [](double value) { return static_cast<double>(static_cast<float>(value)); };
  return {rounded(std::cos(static_cast<double>(angle))),
          rounded(std::sin(static_cast<double>(angle)))};
}

/// cos and sin of one pair in the table's precision.
inline CosSin<double> cos_sin_of_pair(const PhaseTable& table, const AxisPositions& positions,
                                      std::int64_t pair) {
  if (table.precision == Precision::kReference) return reference_cos_sin(table, positions, pair);
  std::uint64_t phase = 0;
  add_phases<1>(table, positions, pair, 1, &phase);
  return cos_sin<double>(phase);
}

/// z / |z| of `count` pairs from `first` on, at most kMaxPhases. Writes up to the next multiple of
/// 64.
template <typename T>
HWY_INLINE void unit_pairs(const AngleSource& source, const AxisPositions& positions,
                           std::int64_t first, std::size_t count, T* c, T* s) {
  const PhaseTable& table = *source.phases;
  const PhaseTable* divisor = source.divisor;
  const bool exact = (table.precision == Precision::kExact || !source.is_position) &&
                     (divisor == nullptr || divisor->precision == Precision::kExact);
  if (exact) {
    HWY_ALIGN std::uint64_t phases[kMaxPhases];
    std::fill_n(phases, count, std::uint64_t{0});
    add_phases<1>(table, positions, first, count, phases);
    if (divisor != nullptr) add_phases<-1>(*divisor, positions, first, count, phases);
    cos_sin_of(phases, count, c, s);
    return;
  }
  for (std::size_t i = 0; i < count; ++i) {
    const std::int64_t pair = first + static_cast<std::int64_t>(i);
    CosSin<double> z = cos_sin_of_pair(table, positions, pair);
    if (divisor != nullptr) {
      const CosSin<double> w = cos_sin_of_pair(*divisor, positions, pair);
      z = {z.cos * w.cos + z.sin * w.sin, z.sin * w.cos - z.cos * w.sin};
    }
    c[i] = static_cast<T>(z.cos);
    s[i] = static_cast<T>(z.sin);
  }
}

/// z / |z| of all pairs.
template <typename T>
HWY_INLINE void unit_row(const AngleSource& source, const AxisPositions& positions, T* c, T* s) {
  const std::int64_t pairs = source.phases->pairs;
  for (std::int64_t i = 0; i < pairs; i += static_cast<std::int64_t>(kMaxPhases)) {
    const std::size_t count = std::min(kMaxPhases, static_cast<std::size_t>(pairs - i));
    unit_pairs(source, positions, i, count, c + i, s + i);
  }
}

/// log |z| of one pair, without scale.
inline double growth_exponent(const PhaseTable& table, const AxisPositions& positions,
                              std::int64_t pair, bool is_position) {
  if (table.growth.empty()) return 0.0;
  const double origin = is_position ? table.growth_origin : 0.0;
  double exponent = 0.0;
  for (std::int64_t a = 0; a < table.axes; ++a) {
    exponent += table.growth[static_cast<std::size_t>(a * table.pairs + pair)] *
                (positions.at[a].real - origin);
  }
  return exponent;
}

/// One factor for all pairs. Input and output may be the same.
template <typename T>
HWY_INLINE void scale_row(const T* c, const T* s, std::int64_t pairs, T cos_scale, T sin_scale,
                          T* scaled_c, T* scaled_s) {
  for (std::int64_t i = 0; i < pairs; ++i) {
    scaled_c[i] = c[i] * cos_scale;
    scaled_s[i] = s[i] * sin_scale;
  }
}

/// From z / |z| to z, 1/z or conj(z), as the direction asks.
template <typename T>
HWY_INLINE void apply_magnitude(const RotateParams& params, const AxisPositions& positions,
                                const T* c, const T* s, T* scaled_c, T* scaled_s) {
  const AngleSource& source = params.source;
  const PhaseTable& table = *source.phases;
  const PhaseTable* divisor = source.divisor;
  double scale = source.is_position ? table.scale : 1.0;
  if (divisor != nullptr) scale /= divisor->scale;
  const bool grows = !table.growth.empty() || (divisor != nullptr && !divisor->growth.empty());
  const bool inverse = params.direction == Direction::kInverse;
  const T sign = params.direction == Direction::kForward ? T{1} : T{-1};
  if (!grows) {
    const T factor = static_cast<T>(inverse ? 1.0 / scale : scale);
    scale_row(c, s, table.pairs, factor, sign * factor, scaled_c, scaled_s);
    return;
  }
  for (std::int64_t i = 0; i < table.pairs; ++i) {
    double exponent = growth_exponent(table, positions, i, source.is_position);
    if (divisor != nullptr) exponent -= growth_exponent(*divisor, positions, i, true);
    const double magnitude = scale * std::exp(exponent);
    const T factor = static_cast<T>(inverse ? 1.0 / magnitude : magnitude);
    scaled_c[i] = c[i] * factor;
    scaled_s[i] = s[i] * (sign * factor);
  }
}

}  // namespace rotary::internal::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // ROTARY_CPU_UNIT_ROW_INL_H
