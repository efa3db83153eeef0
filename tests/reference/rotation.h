// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// The rotation as in the paper, in long double: a pair of a token at position m is
// multiplied by e^(i m f) (RoFormer, arXiv 2104.09864, equations 13 to 15). Angles have
// the accuracy of long double: use oracle.h for large positions.
#pragma once

#include <cmath>
#include <complex>
#include <cstddef>
#include <cstdint>
#include <map>
#include <vector>

#include "rotary/frequencies.h"
#include "rotary/pairing.h"

namespace rotary::reference {

enum class Map : std::uint8_t { kRotate, kUnrotate, kAdjoint };

/// e^(i angle). Kept: cases share angles, and a long double of 128 bits is computed in software.
inline std::complex<long double> unit(long double angle) {
  thread_local std::map<long double, std::complex<long double>> known;
  const auto [entry, is_new] = known.try_emplace(angle);
  if (is_new) entry->second = std::polar(1.0L, angle);
  return entry->second;
}

/// The factor z of pair `pair` at `position` (one entry per axis).
inline std::complex<long double> multiplier(const Frequencies& f, Map map, std::int64_t pair,
                                            const long double* position) {
  long double angle = 0.0L;
  long double exponent = 0.0L;
  for (std::int64_t a = 0; a < f.axes; ++a) {
    angle += static_cast<long double>(f(pair, a)) * position[a];
    if (f.growth.empty()) continue;
    exponent += static_cast<long double>(f.growth[static_cast<std::size_t>(pair * f.axes + a)]) *
                (position[a] - static_cast<long double>(f.growth_origin));
  }
  const auto z = static_cast<long double>(f.scale) * std::exp(exponent) * unit(angle);
  if (map == Map::kRotate) return z;
  return map == Map::kUnrotate ? 1.0L / z : std::conj(z);
}

/// Multiplies pair i of row r of x [rows, heads, head_dim] by z(r, i); copies the rest of a head.
template <typename Multiplier>
std::vector<long double> multiply(const HeadLayout& slice, std::int64_t pairs, Pairing read,
                                  Pairing write, const std::vector<long double>& x,
                                  std::int64_t heads, const Multiplier& z) {
  // Index of member 0 or 1 of a pair in its head.
  const auto at = [&](Pairing pairing, std::int64_t pair, std::int64_t member) {
    return static_cast<std::size_t>(slice.rotary_offset + (pairing == Pairing::kHalf
                                                               ? pair + member * pairs
                                                               : 2 * pair + member));
  };
  std::vector<long double> result = x;
  const auto width = static_cast<std::size_t>(slice.head_dim);
  const std::size_t row_size = static_cast<std::size_t>(heads) * width;
  for (std::size_t row = 0; row * row_size < x.size(); ++row) {
    for (std::int64_t i = 0; i < pairs; ++i) {
      const std::complex<long double> by = z(static_cast<std::int64_t>(row), i);
      for (std::size_t head = row * row_size; head < (row + 1) * row_size; head += width) {
        const auto w =
            by * std::complex<long double>(x[head + at(read, i, 0)], x[head + at(read, i, 1)]);
        result[head + at(write, i, 0)] = w.real();
        result[head + at(write, i, 1)] = w.imag();
      }
    }
  }
  return result;
}

/// Rotates x [rows, heads, head_dim]; positions are [rows, axes]. A row is a token of a batch row.
inline std::vector<long double> rotate(const Frequencies& f, const HeadLayout& layout, Map map,
                                       const std::vector<long double>& x, std::int64_t heads,
                                       const std::vector<long double>& positions) {
  const Pairing input = *layout.pairing;
  const Pairing output = layout.output_pairing.value_or(input);
  const bool forward = map == Map::kRotate;
  return multiply(layout, f.pairs, forward ? input : output, forward ? output : input, x, heads,
                  [&](std::int64_t row, std::int64_t pair) {
                    return multiplier(f, map, pair,
                                      &positions[static_cast<std::size_t>(row * f.axes)]);
                  });
}

}  // namespace rotary::reference
