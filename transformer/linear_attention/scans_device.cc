// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

#include "transformer/linear_attention/scans_device.h"

#include <ATen/OpMathType.h>
#include <ATen/Parallel.h>
#include <ATen/ops/empty.h>
#include <c10/util/TypeCast.h>

#include <cstdint>
#include <vector>

#include "transformer/linear_attention/kernels.h"
#include "transformer/linear_attention/scans.h"

#ifdef ROTARY_TORCH_CUDA_KERNELS
#include "transformer/linear_attention/launch.h"
#endif

namespace rotary::transformer {
namespace {

using OptionalTensor = std::optional<at::Tensor>;

template <typename T>
const T* typed_data_or_null(const OptionalTensor& x) {
  return x.has_value() ? x->const_data_ptr<T>() : nullptr;
}

/// Calls use(T{}) with the element type of x.
template <typename Use>
void dispatch_type(const at::Tensor& x, const Use& use) {
  switch (x.scalar_type()) {
    case at::kDouble:
      return use(0.0);
    case at::kBFloat16:
      return use(at::BFloat16(0.0F));
    case at::kHalf:
      return use(at::Half(0.0F));
    default:
      return use(0.0F);
  }
}

// ---- CPU: rows in parallel ----------------------------------------------------------------------

template <typename T>
void exclusive_scan_row(T* states, std::int64_t count, std::int64_t size, bool reverse) {
  std::vector<T> sum(static_cast<std::size_t>(size), T(0));
  for (std::int64_t c = 0; c < count; ++c) {
    T* at = states + (reverse ? count - 1 - c : c) * size;
    for (std::int64_t i = 0; i < size; ++i) {
      const T added = at[i];
      at[i] = sum[static_cast<std::size_t>(i)];
      sum[static_cast<std::size_t>(i)] += added;
    }
  }
}

/// Scans one row: adds weight_j y_j to a running sum, then calls use(token, sum).
template <typename T, typename Use>
void scan_row(const T* y, const at::opmath_type<T>* weight, std::int64_t tokens,
              std::int64_t features, bool reverse, const Use& use) {
  using Accum = at::opmath_type<T>;
  std::vector<Accum> sum(static_cast<std::size_t>(features), Accum(0));
  for (std::int64_t n = 0; n < tokens; ++n) {
    const std::int64_t token = reverse ? tokens - 1 - n : n;
    const T* from = y + token * features;
    const Accum factor = weight == nullptr ? Accum(1) : weight[token];
    for (std::int64_t i = 0; i < features; ++i) {
      sum[static_cast<std::size_t>(i)] += factor * static_cast<Accum>(from[i]);
    }
    use(token, sum.data());
  }
}

template <typename T>
void dot_cpu(const at::Tensor& x, const at::Tensor& y, const at::Tensor& out, bool reverse) {
  using Accum = at::opmath_type<T>;
  const std::int64_t tokens = x.size(1);
  const std::int64_t features = x.size(2);
  const T* xs = x.const_data_ptr<T>();
  const T* ys = y.const_data_ptr<T>();
  Accum* outs = out.data_ptr<Accum>();
  at::parallel_for(0, x.size(0), 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t row = begin; row < end; ++row) {
      const std::int64_t offset = row * tokens * features;
      const Accum* none = nullptr;
      scan_row(ys + offset, none, tokens, features, reverse,
               [&](std::int64_t token, const Accum* sum) {
                 const T* at = xs + offset + token * features;
                 Accum dot = 0;
                 for (std::int64_t i = 0; i < features; ++i) {
                   dot += static_cast<Accum>(at[i]) * sum[i];
                 }
                 outs[row * tokens + token] = dot;
               });
    }
  });
}

template <typename T>
void sum_cpu(const at::Tensor& x, const OptionalTensor& weight, const OptionalTensor& scale,
             const at::Tensor& out, bool reverse) {
  using Accum = at::opmath_type<T>;
  const std::int64_t tokens = x.size(1);
  const std::int64_t features = x.size(2);
  const T* xs = x.const_data_ptr<T>();
  T* outs = out.data_ptr<T>();
  const Accum* weights = typed_data_or_null<Accum>(weight);
  const Accum* scales = typed_data_or_null<Accum>(scale);
  at::parallel_for(0, x.size(0), 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t row = begin; row < end; ++row) {
      const std::int64_t offset = row * tokens * features;
      scan_row(xs + offset, weights == nullptr ? nullptr : weights + row * tokens, tokens, features,
               reverse, [&](std::int64_t token, const Accum* sum) {
                 const Accum factor = scales == nullptr ? Accum(1) : scales[row * tokens + token];
                 T* at = outs + offset + token * features;
                 for (std::int64_t i = 0; i < features; ++i) {
                   at[i] = c10::convert<T>(factor * sum[i]);
                 }
               });
    }
  });
}

// ---- CUDA ---------------------------------------------------------------------------------------

#ifdef ROTARY_TORCH_CUDA_KERNELS

constexpr std::int64_t kWarpSegment = 64;  // tokens that one warp scans

cuda::Segments warp_segments(const at::Tensor& x, bool reverse) {
  TORCH_CHECK_VALUE(x.size(2) <= cuda::kMaxFeatures, "[linear_attention] CUDA supports at most ",
                    cuda::kMaxFeatures, " features per head, got ", x.size(2));
  return {
      .batch_heads = x.size(0), .tokens = x.size(1), .length = kWarpSegment, .reverse = reverse};
}

/// Initial states: the sums of weight_j y_j before each segment, [batch_heads, segments, features].
at::Tensor prefixes_of(const at::Tensor& y, const OptionalTensor& weight,
                       const cuda::Segments& segments) {
  const at::Tensor prefixes = at::empty({segments.batch_heads, segments.count(), y.size(2)},
                                        y.options().dtype(accum_type(y.scalar_type())));
  check_launch(
      "linear_attention",
      cuda::launch_segment_sums(y.const_data_ptr(), data_or_null(weight), prefixes.data_ptr(),
                                element_type(y.scalar_type()), segments, y.size(2), stream_for(y)));
  exclusive_scan_(prefixes, segments.reverse);
  return prefixes;
}

void scan_cuda(const at::Tensor& states, bool reverse) {
  check_launch("linear_attention",
               cuda::launch_exclusive_scan(states.data_ptr(), element_type(states.scalar_type()),
                                           states.size(0), states.size(1), states.size(2), reverse,
                                           stream_for(states)));
}

void dot_cuda(const at::Tensor& x, const at::Tensor& y, const at::Tensor& out, bool reverse) {
  const cuda::Segments segments = warp_segments(x, reverse);
  const at::Tensor prefixes = prefixes_of(y, std::nullopt, segments);
  check_launch("linear_attention", cuda::launch_dot_scan(x.const_data_ptr(), y.const_data_ptr(),
                                                         prefixes.const_data_ptr(), out.data_ptr(),
                                                         element_type(x.scalar_type()), segments,
                                                         x.size(2), stream_for(x)));
}

void sum_cuda(const at::Tensor& x, const OptionalTensor& weight, const OptionalTensor& scale,
              const at::Tensor& out, bool reverse) {
  const cuda::Segments segments = warp_segments(x, reverse);
  const at::Tensor prefixes = prefixes_of(x, weight, segments);
  check_launch(
      "linear_attention",
      cuda::launch_sum_scan(x.const_data_ptr(), data_or_null(weight), data_or_null(scale),
                            prefixes.const_data_ptr(), out.data_ptr(),
                            element_type(x.scalar_type()), segments, x.size(2), stream_for(x)));
}

#else

[[noreturn]] void reject_cuda() {
  TORCH_CHECK(false, "rotary's PyTorch operators were built without CUDA");
}
void scan_cuda(const at::Tensor&, bool) { reject_cuda(); }
void dot_cuda(const at::Tensor&, const at::Tensor&, const at::Tensor&, bool) { reject_cuda(); }
void sum_cuda(const at::Tensor&, const OptionalTensor&, const OptionalTensor&, const at::Tensor&,
              bool) {
  reject_cuda();
}

#endif

}  // namespace

at::Tensor dense(const at::Tensor& x) {
  const at::Tensor result = x.contiguous();
  constexpr std::uintptr_t kAlignment = 16;
  const auto address = reinterpret_cast<std::uintptr_t>(result.const_data_ptr());
  return address % kAlignment == 0 ? result : result.clone();
}

void exclusive_scan_(const at::Tensor& states, bool reverse) {
  if (states.is_cuda()) return scan_cuda(states, reverse);
  const std::int64_t count = states.size(1);
  const std::int64_t size = states.size(2);
  const auto scan = [&](auto zero) {
    using Type = decltype(zero);
    auto* all = states.data_ptr<Type>();
    at::parallel_for(0, states.size(0), 1, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t row = begin; row < end; ++row) {
        exclusive_scan_row(all + row * count * size, count, size, reverse);
      }
    });
  };
  states.scalar_type() == at::kDouble ? scan(0.0) : scan(0.0F);
}

void dot_scan(const at::Tensor& x, const at::Tensor& y, const at::Tensor& out, bool reverse) {
  if (x.is_cuda()) return dot_cuda(x, y, out, reverse);
  dispatch_type(x, [&](auto zero) { dot_cpu<decltype(zero)>(x, y, out, reverse); });
}

void sum_scan(const at::Tensor& x, const OptionalTensor& weight, const OptionalTensor& scale,
              const at::Tensor& out, bool reverse) {
  if (x.is_cuda()) return sum_cuda(x, weight, scale, out, reverse);
  dispatch_type(x, [&](auto zero) { sum_cpu<decltype(zero)>(x, weight, scale, out, reverse); });
}

#ifdef ROTARY_TORCH_CUDA_KERNELS

void elu_plus_one_into(const at::Tensor& x, const at::Tensor& out) {
  if (x.numel() == 0) return;
  check_launch("linear_attention",
               cuda::launch_elu_plus_one(x.const_data_ptr(), out.data_ptr(),
                                         element_type(x.scalar_type()), x.numel(), stream_for(x)));
}

void unit_vectors_into(const at::Tensor& x, const at::Tensor& g, const at::Tensor& out) {
  if (x.numel() == 0) return;
  check_launch("linear_attention",
               cuda::launch_unit_vectors(x.const_data_ptr(), data_or_null(g), out.data_ptr(),
                                         element_type(x.scalar_type()), x.numel() / x.size(-1),
                                         x.size(-1), stream_for(x)));
}

void reciprocals_into(const at::Tensor& sums, const at::Tensor& bounds, double guard,
                      const at::Tensor& out) {
  if (sums.numel() == 0) return;
  check_launch(
      "linear_attention",
      cuda::launch_reciprocals(sums.const_data_ptr(), data_or_null(bounds), guard, out.data_ptr(),
                               element_type(sums.scalar_type()), sums.numel(), stream_for(sums)));
}

void reciprocal_gradients_into(const at::Tensor& g, const at::Tensor& y, const at::Tensor& sums,
                               const at::Tensor& bounds, double guard, const at::Tensor& d_sums,
                               const at::Tensor& d_bounds) {
  if (sums.numel() == 0) return;
  check_launch("linear_attention",
               cuda::launch_reciprocal_gradients({.g = g.const_data_ptr(),
                                                  .y = y.const_data_ptr(),
                                                  .sums = sums.const_data_ptr(),
                                                  .bounds = data_or_null(bounds),
                                                  .guard = guard,
                                                  .d_sums = d_sums.data_ptr(),
                                                  .d_bounds = d_bounds.data_ptr()},
                                                 element_type(sums.scalar_type()), sums.numel(),
                                                 stream_for(sums)));
}

void scaled_rows_and_dots_into(const at::Tensor& a, const at::Tensor& b, const at::Tensor& scale,
                               const at::Tensor& scaled, const at::Tensor& dots) {
  if (a.numel() == 0) return;
  check_launch("linear_attention",
               cuda::launch_scaled_rows_and_dots(
                   a.const_data_ptr(), b.const_data_ptr(), scale.const_data_ptr(),
                   scaled.data_ptr(), dots.data_ptr(), element_type(a.scalar_type()),
                   a.numel() / a.size(-1), a.size(-1), stream_for(a)));
}

#else

void elu_plus_one_into(const at::Tensor&, const at::Tensor&) { reject_cuda(); }
void unit_vectors_into(const at::Tensor&, const at::Tensor&, const at::Tensor&) { reject_cuda(); }
void reciprocals_into(const at::Tensor&, const at::Tensor&, double, const at::Tensor&) {
  reject_cuda();
}
void reciprocal_gradients_into(const at::Tensor&, const at::Tensor&, const at::Tensor&,
                               const at::Tensor&, double, const at::Tensor&, const at::Tensor&) {
  reject_cuda();
}
void scaled_rows_and_dots_into(const at::Tensor&, const at::Tensor&, const at::Tensor&,
                               const at::Tensor&, const at::Tensor&) {
  reject_cuda();
}
bool has_chunk_product(const at::Tensor&, const at::Tensor&) { return false; }
at::Tensor chunk_product(const at::Tensor&, const at::Tensor&, const at::Tensor&,
                         const OptionalTensor&, bool) {
  reject_cuda();
}

#endif

}  // namespace rotary::transformer
