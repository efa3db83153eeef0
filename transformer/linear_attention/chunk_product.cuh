// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// What the chunk product kernels share: chunks of a segment, the state a segment starts from, and
// the double-buffered cp.async loop.
#pragma once

#include <cstdint>

#include "transformer/linear_attention/kernels.h"
#include "transformer/linear_attention/tiles.cuh"

namespace rotary::transformer::cuda {

/// Chunks of a CTA's segment, in the order of the scan.
struct SegmentChunks {
  std::int64_t row;      // of batch_heads
  std::int64_t segment;  // of all rows
  std::int64_t begin;    // first token
  int chunks;
  bool reverse;

  __device__ SegmentChunks(const Segments& s, std::int64_t count, std::int64_t own_segment,
                           int chunk)
      : row(own_segment / count),
        segment(own_segment),
        begin((own_segment % count) * s.length),
        reverse(s.reverse) {
    const std::int64_t end = begin + s.length < s.tokens ? begin + s.length : s.tokens;
    chunks = static_cast<int>((end - begin + chunk - 1) / chunk);
  }
  /// First token of the i-th chunk.
  __device__ std::int64_t token(int i, int chunk) const {
    return begin + std::int64_t{reverse ? chunks - 1 - i : i} * chunk;
  }
};

/// Initial state of a segment: the sum of states[begin] up to states[end - 1]. It is one scanned
/// state, or, where states are unscanned, those of all segments of the row before this one (after
/// it in reverse).
struct InitialState {
  const float* states;  // [batch_heads, count, features, values]
  std::int64_t size;
  std::int64_t begin = 0;
  std::int64_t end = 0;

  /// `from` may be null: the initial state is 0.
  __device__ InitialState(const float* from, const Segments& s, std::int64_t count,
                          std::int64_t segment, const StateDims& dims)
      : states(from), size(std::int64_t{dims.features} * dims.values) {
    if (from == nullptr) return;
    const std::int64_t first = segment / count * count;  // of its row
    if (!s.unscanned) {
      begin = segment;
      end = segment + 1;
    } else {
      begin = s.reverse ? segment + 1 : first;
      end = s.reverse ? first + count : segment;
    }
  }
  /// Calls add(state) for each of them.
  template <typename Add>
  __device__ void for_each(const Add& add) const {
    for (std::int64_t i = begin; i < end; ++i) add(states + i * size);
  }
};

/// Double buffering: starts the load of chunk i + 1, then waits for chunk i. load(i) issues
/// cp.async and commits them as one group.
template <typename Load>
__device__ void prefetch_next(int i, int chunks, const Load& load) {
  if (i + 1 < chunks) {
    load(i + 1);
    cp_async_wait_group<1>();
  } else {
    cp_async_wait_group<0>();
  }
}

}  // namespace rotary::transformer::cuda
