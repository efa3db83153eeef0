// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// The gradients of a rotation, term by term, in long double. With w = z x and the gradient g of the
// result, L = sum g . w, hence
//   dL/df = p (g . i w)      dL/dp = f (g . i w) + growth (g . w)      dL/dscale = (g . w) / scale
#pragma once

#include <cmath>
#include <complex>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "reference/rotation.h"

namespace rotary::reference {

/// A sum, and the sum of the sizes of its terms, to which rounding errors are relative.
struct Sum {
  long double value = 0.0L;
  long double size = 0.0L;
  void add(long double factor, long double dot, long double length) {
    value += factor * dot;
    size += std::fabs(factor) * length;
  }
  friend Sum operator+(const Sum& a, const Sum& b) { return {a.value + b.value, a.size + b.size}; }
};

struct Gradients {
  std::vector<Sum> frequencies;  // [pairs, axes]
  std::vector<Sum> positions;    // [rows, axes]
  Sum scale;
};

/// Adds those of one tensor: x in the input pairing and g in the output pairing are
/// [rows, heads, head_dim], positions [rows, axes].
inline void add_gradients(const Frequencies& f, const HeadLayout& layout,
                          const std::vector<long double>& x, const std::vector<long double>& g,
                          std::int64_t heads, const std::vector<long double>& positions,
                          Gradients& sums) {
  const auto axes = static_cast<std::size_t>(f.axes);
  sums.frequencies.resize(f.values.size());
  sums.positions.resize(positions.size());
  const auto pair_of = [&](const std::vector<long double>& head, std::int64_t first,
                           Pairing pairing, std::int64_t i) {
    const std::int64_t at = first + layout.rotary_offset;
    const auto [a, b] = pairing == Pairing::kHalf ? std::pair{at + i, at + i + f.pairs}
                                                  : std::pair{at + 2 * i, at + 2 * i + 1};
    return std::complex<long double>(head[static_cast<std::size_t>(a)],
                                     head[static_cast<std::size_t>(b)]);
  };
  for (std::size_t row = 0; row < positions.size() / axes; ++row) {
    const long double* at = &positions[row * axes];
    for (std::int64_t i = 0; i < f.pairs; ++i) {
      const auto z = multiplier(f, Map::kRotate, i, at);
      for (std::int64_t h = 0; h < heads; ++h) {
        const std::int64_t first = (static_cast<std::int64_t>(row) * heads + h) * layout.head_dim;
        const auto w = z * pair_of(x, first, *layout.pairing, i);
        const auto to = pair_of(g, first, layout.output_pairing.value_or(*layout.pairing), i);
        const auto product = std::conj(to) * w;  // g . w, and minus g . i w
        const long double length = std::abs(to) * std::abs(w);
        for (std::size_t a = 0; a < axes; ++a) {
          const std::size_t entry = static_cast<std::size_t>(i) * axes + a;
          sums.frequencies[entry].add(at[a], -product.imag(), length);
          Sum& position = sums.positions[row * axes + a];
          position.add(static_cast<long double>(f.values[entry]), -product.imag(), length);
          if (f.growth.empty()) continue;
          position.add(static_cast<long double>(f.growth[entry]), product.real(), length);
        }
        sums.scale.add(1.0L / static_cast<long double>(f.scale), product.real(), length);
      }
    }
  }
}

}  // namespace rotary::reference
