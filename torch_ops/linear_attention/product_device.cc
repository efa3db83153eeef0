// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// linear_product by kernels of CUDA: which one, and in how many segments. For builds with kernels
// alone.

#include <ATen/ops/empty.h>

#include <cmath>
#include <cstdint>
#include <limits>

#include "linear_attention/launch.h"
#include "linear_attention/sums_cuda.h"
#include "linear_attention/sums_device.h"

namespace rotary::torch {
namespace {

using OptionalTensor = std::optional<at::Tensor>;

constexpr std::int64_t kShortSegment = 128;  // tokens of one block, at least
constexpr std::int64_t kWideSegment = 256;   // of several, where there are many features
constexpr std::int64_t kManyBlocks = 512;    // fill a large GPU
constexpr std::int64_t kFewSegments = 4;     // whose states blocks add up themselves

cuda::Widths widths_of(const at::Tensor& x, const at::Tensor& w) {
  return {.features = static_cast<int>(x.size(-1)), .values = static_cast<int>(w.size(-1))};
}

cuda::Segments whole_rows(const at::Tensor& x, bool reverse) {
  return {.rows = x.numel() / (x.size(-2) * x.size(-1)),
          .tokens = x.size(-2),
          .length = x.size(-2),
          .reverse = reverse};
}

/// Of many features: segments that are long where there are enough of them.
cuda::Segments wide_segments(const at::Tensor& x, bool reverse) {
  cuda::Segments segments = whole_rows(x, reverse);
  segments.length = kWideSegment;
  while (segments.length > kShortSegment && segments.rows * segments.count() < kManyBlocks) {
    segments.length /= 2;
  }
  return segments;
}

/// Segments that take the least time: as many as the GPU works on at a time, or a multiple of that,
/// so that it is never half empty. A row that is one segment needs no states.
cuda::Segments even_segments(const at::Tensor& x, double at_once, bool reverse) {
  constexpr double kWithStates = 1.5;
  constexpr std::int64_t kStateCost = 64;  // of reading and writing one, in tokens
  constexpr double kMostTurns = 4.0;
  cuda::Segments segments = whole_rows(x, reverse);
  const auto rows = static_cast<double>(segments.rows);
  double least = std::numeric_limits<double>::infinity();
  for (std::int64_t count = 1;; ++count) {
    const std::int64_t tokens = (segments.tokens + count - 1) / count;
    const std::int64_t length = (tokens + kShortSegment - 1) / kShortSegment * kShortSegment;
    const double turns = std::ceil(rows * static_cast<double>(count) / at_once);
    const double cost =
        turns * static_cast<double>(length + kStateCost) * (count == 1 ? 1.0 : kWithStates);
    if (cost < least) {
      least = cost;
      segments.length = length;
    }
    if (length == kShortSegment || turns > kMostTurns) return segments;
  }
}

/// sum_j y_j w_j^T of each segment: [rows, count, features * values], float.
at::Tensor product_states(const at::Tensor& y, const at::Tensor& w, const cuda::Segments& segments,
                          const cuda::Widths& widths) {
  const at::Tensor states = at::empty({segments.rows, segments.count(), y.size(-1) * w.size(-1)},
                                      y.options().dtype(at::kFloat));
  check_launch(cuda::launch_product_states(y.const_data_ptr(), w.const_data_ptr(),
                                           states.data_ptr<float>(), type_of(y.scalar_type()),
                                           segments, widths, stream_for(y)));
  return states;
}

at::Tensor narrowing_scan(const at::Tensor& states, const at::Tensor& like, bool reverse) {
  const at::Tensor sums = at::empty(states.sizes(), like.options());
  check_launch(cuda::launch_narrowing_scan(
      states.const_data_ptr<float>(), sums.data_ptr(), type_of(like.scalar_type()), states.size(0),
      states.size(1), states.size(2), reverse, stream_for(states)));
  return sums;
}

}  // namespace

bool has_product_kernel(const at::Tensor& x, const at::Tensor& w) {
  return x.is_cuda() && cuda::has_product(type_of(x.scalar_type()), x.size(-1), w.size(-1)) &&
         cuda::product_of(widths_of(x, w)) != cuda::Product::kNone;
}

at::Tensor product_by_kernel(const at::Tensor& x, const at::Tensor& y, const at::Tensor& w,
                             const OptionalTensor& scale, bool reverse) {
  const at::Tensor xs = dense(x);
  const at::Tensor ys = dense(y);
  const at::Tensor ws = dense(w);
  const OptionalTensor factors =
      scale.has_value() ? OptionalTensor(scale->contiguous()) : std::nullopt;
  const cuda::Widths widths = widths_of(x, w);
  const cuda::Product kernel = cuda::product_of(widths);
  const bool wide = kernel == cuda::Product::kWide;
  auto segments = wide ? wide_segments(xs, reverse)
                       : even_segments(xs, cuda::segments_at_once(kernel, widths), reverse);
  segments.alone = !wide && segments.count() <= kFewSegments;
  at::Tensor states;
  if (segments.count() > 1) {
    states = product_states(ys, ws, segments, widths);
    if (wide) {
      states = narrowing_scan(states, xs, reverse);
    } else if (!segments.alone) {
      exclusive_scan_(states, reverse);
    }
  }
  at::Tensor out = at::empty(ws.sizes(), ws.options());
  const void* from = states.defined() ? states.const_data_ptr() : nullptr;
  const auto launch = [&](auto function, const auto* before) {
    check_launch(function(xs.const_data_ptr(), ys.const_data_ptr(), ws.const_data_ptr(),
                          static_cast<const float*>(pointer(factors)), before, out.data_ptr(),
                          type_of(x.scalar_type()), segments, widths, stream_for(x)));
  };
  switch (kernel) {
    case cuda::Product::kWide:
      launch(cuda::launch_product_of_wide, from);
      break;
    case cuda::Product::kLarge:
      launch(cuda::launch_product_of_large, static_cast<const float*>(from));
      break;
    default:
      launch(cuda::launch_product, static_cast<const float*>(from));
  }
  return out;
}

}  // namespace rotary::torch
