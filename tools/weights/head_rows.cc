// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

#include "tools/weights/head_rows.h"

#include <cstddef>
#include <numeric>

namespace rotary::cli {
namespace {

/// Index in the rotary slice of the first (0) or second (1) element of a pair.
std::int64_t index_in_slice(std::int64_t pair, std::int64_t element, std::int64_t rotary_dim,
                            Pairing pairing) {
  return pairing == Pairing::kHalf ? element * (rotary_dim / 2) + pair : 2 * pair + element;
}

}  // namespace

std::vector<std::int64_t> row_sources(std::int64_t num_rows, std::span<const HeadRows> heads,
                                      Pairing from, Pairing to) {
  std::vector<std::int64_t> sources(static_cast<std::size_t>(num_rows));
  std::iota(sources.begin(), sources.end(), std::int64_t{0});
  for (const HeadRows& run : heads) {
    for (std::int64_t head = 0; head < run.num_heads; ++head) {
      const std::int64_t slice = run.first_row + head * run.stride + run.rotary_offset;
      for (std::int64_t pair = 0; pair < run.rotary_dim / 2; ++pair) {
        for (const std::int64_t element : {0, 1}) {
          const std::int64_t row = slice + index_in_slice(pair, element, run.rotary_dim, to);
          sources[static_cast<std::size_t>(row)] =
              slice + index_in_slice(pair, element, run.rotary_dim, from);
        }
      }
    }
  }
  return sources;
}

}  // namespace rotary::cli
