// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// Host side of the chunk product on CUDA: how rows are cut into segments, and the launches. For
// builds with kernels only.

#include <ATen/ops/empty.h>

#include <cmath>
#include <cstdint>
#include <limits>

#include "transformer/linear_attention/kernels.h"
#include "transformer/linear_attention/launch.h"
#include "transformer/linear_attention/scans_device.h"

namespace rotary::transformer {
namespace {

constexpr std::int64_t kMinSegment = 128;       // tokens
constexpr std::int64_t kWideSegment = 256;      // tokens, kWide: several CTAs share it
constexpr std::int64_t kMinWideSegments = 512;  // fill a large GPU
constexpr std::int64_t kMaxUnscanned = 4;       // segments of a row whose states a CTA adds itself

cuda::StateDims state_dims(const at::Tensor& x, const at::Tensor& w) {
  return {.features = static_cast<int>(x.size(-1)), .values = static_cast<int>(w.size(-1))};
}

cuda::Segments one_segment_per_row(const at::Tensor& x, bool reverse) {
  return {.batch_heads = x.numel() / (x.size(-2) * x.size(-1)),
          .tokens = x.size(-2),
          .length = x.size(-2),
          .reverse = reverse};
}

/// kWide: long segments, as long as there are enough of them.
cuda::Segments wide_segments(const at::Tensor& x, bool reverse) {
  cuda::Segments segments = one_segment_per_row(x, reverse);
  segments.length = kWideSegment;
  while (segments.length > kMinSegment &&
         segments.batch_heads * segments.count() < kMinWideSegments) {
    segments.length /= 2;
  }
  return segments;
}

/// Segments of least estimated time: whole waves, so that the last one leaves no SM idle. A row
/// that is one segment needs no states.
cuda::Segments balanced_segments(const at::Tensor& x, double concurrent, bool reverse) {
  constexpr double kStatesFactor = 1.5;    // cost of the pass that computes states
  constexpr std::int64_t kStateCost = 64;  // reading and writing a state, in tokens
  constexpr double kMaxWaves = 4.0;
  cuda::Segments segments = one_segment_per_row(x, reverse);
  const auto rows = static_cast<double>(segments.batch_heads);
  double min_cost = std::numeric_limits<double>::infinity();
  for (std::int64_t count = 1;; ++count) {
    const std::int64_t tokens = (segments.tokens + count - 1) / count;
    const std::int64_t length = (tokens + kMinSegment - 1) / kMinSegment * kMinSegment;
    const double waves = std::ceil(rows * static_cast<double>(count) / concurrent);
    const double cost =
        waves * static_cast<double>(length + kStateCost) * (count == 1 ? 1.0 : kStatesFactor);
    if (cost < min_cost) {
      min_cost = cost;
      segments.length = length;
    }
    if (length == kMinSegment || waves > kMaxWaves) return segments;
  }
}

/// sum_j y_j w_j^T of each segment: [batch_heads, count, features * values], float.
at::Tensor segment_states(const at::Tensor& y, const at::Tensor& w, const cuda::Segments& segments,
                          const cuda::StateDims& dims) {
  const at::Tensor states =
      at::empty({segments.batch_heads, segments.count(), y.size(-1) * w.size(-1)},
                y.options().dtype(at::kFloat));
  check_launch(
      "linear_attention",
      cuda::launch_segment_states(y.const_data_ptr(), w.const_data_ptr(), states.data_ptr<float>(),
                                  element_type(y.scalar_type()), segments, dims, stream_for(y)));
  return states;
}

/// Exclusive scan, rounded to the type of `like`.
at::Tensor rounding_scan(const at::Tensor& states, const at::Tensor& like, bool reverse) {
  const at::Tensor sums = at::empty(states.sizes(), like.options());
  check_launch(
      "linear_attention",
      cuda::launch_rounding_scan(states.const_data_ptr<float>(), sums.data_ptr(),
                                 element_type(like.scalar_type()), states.size(0), states.size(1),
                                 states.size(2), reverse, stream_for(states)));
  return sums;
}

}  // namespace

bool has_chunk_product(const at::Tensor& x, const at::Tensor& w) {
  return x.is_cuda() &&
         cuda::supports_chunk_product(element_type(x.scalar_type()), x.size(-1), w.size(-1)) &&
         cuda::select_chunk_product(state_dims(x, w)) != cuda::ChunkProductKernel::kNone;
}

at::Tensor chunk_product(const at::Tensor& x, const at::Tensor& y, const at::Tensor& w,
                         const std::optional<at::Tensor>& scale, bool reverse) {
  const at::Tensor xs = dense(x);
  const at::Tensor ys = dense(y);
  const at::Tensor ws = dense(w);
  const at::Tensor factors = scale.has_value() ? scale->contiguous() : at::Tensor();
  const cuda::StateDims dims = state_dims(x, w);
  const cuda::ChunkProductKernel kernel = cuda::select_chunk_product(dims);
  const bool wide = kernel == cuda::ChunkProductKernel::kWide;
  auto segments = wide ? wide_segments(xs, reverse)
                       : balanced_segments(xs, cuda::concurrent_segments(kernel, dims), reverse);
  segments.unscanned = !wide && segments.count() <= kMaxUnscanned;
  at::Tensor states;
  if (segments.count() > 1) {
    states = segment_states(ys, ws, segments, dims);
    if (wide) {
      states = rounding_scan(states, xs, reverse);
    } else if (!segments.unscanned) {
      exclusive_scan_(states, reverse);
    }
  }
  at::Tensor out = at::empty(ws.sizes(), ws.options());
  check_launch("linear_attention", cuda::launch_chunk_product(
                                       kernel,
                                       {.x = xs.const_data_ptr(),
                                        .y = ys.const_data_ptr(),
                                        .w = ws.const_data_ptr(),
                                        .scale = static_cast<const float*>(data_or_null(factors)),
                                        .states = data_or_null(states),
                                        .out = out.data_ptr(),
                                        .type = element_type(x.scalar_type()),
                                        .segments = segments,
                                        .dims = dims},
                                       stream_for(x)));
  return out;
}

}  // namespace rotary::transformer
