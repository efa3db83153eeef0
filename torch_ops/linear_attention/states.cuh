// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// Which states of linear_product a block begins with.
#pragma once

#include <cstdint>

#include "linear_attention/sums_cuda.h"

namespace rotary::torch::cuda {

/// Those from `begin` up to `end` add up to what came before a segment.
struct StatesBefore {
  const float* states;  // [rows, count, features, values]
  std::int64_t size;
  std::int64_t begin = 0;
  std::int64_t end = 0;

  /// Segment `own` of all rows; `from` may be null.
  __device__ StatesBefore(const float* from, const Segments& s, std::int64_t count,
                          std::int64_t own, const Widths& widths)
      : states(from), size(std::int64_t{widths.features} * widths.values) {
    if (from == nullptr) return;
    const std::int64_t first = own / count * count;  // of its row
    if (!s.alone) {
      begin = own;
      end = own + 1;
    } else {
      begin = s.reverse ? own + 1 : first;
      end = s.reverse ? first + count : own;
    }
  }
};

}  // namespace rotary::torch::cuda
