// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// The operator on CUDA: calls of the kernels.

#include <ATen/DeviceGuard.h>
#include <ATen/Functions.h>
#include <torch/library.h>

#include <limits>
#include <tuple>
#include <vector>

#include "feed_forward/checks.h"
#include "feed_forward/feed_forward.h"
#include "feed_forward/products_cuda.h"
#include "hopper/processors.h"
#include "layers/aligned.h"
#include "layers/layers_cuda.h"
#include "rotation/kernel_calls.h"

namespace rotary::torch {

#ifdef ROTARY_TORCH_CUDA_KERNELS

namespace {

using Two = std::tuple<at::Tensor, at::Tensor>;
using Three = std::tuple<at::Tensor, at::Tensor, at::Tensor>;

constexpr std::int64_t kWidthStep = 64;  // of what widths are multiples

void check_launched(int error) { TORCH_CHECK(error == 0, "[feed_forward] CUDA error ", error); }

int processors_for(const at::Tensor& x) { return hopper::processors_of(x.device().index()); }

bool has_kernel(const at::Tensor& x, const at::Tensor& inner, const at::Tensor& outer) {
  const auto fits = [](std::int64_t width) { return width > 0 && width % kWidthStep == 0; };
  return x.scalar_type() == at::kBFloat16 && fits(inner.size(0)) && fits(inner.size(1)) &&
         fits(outer.size(0)) && processors_for(x) > 0;
}

int rows_of(const at::Tensor& x) {
  constexpr std::int64_t kMost = std::numeric_limits<std::int32_t>::max() / 2;
  const std::int64_t rows = x.size(-1) == 0 ? 0 : x.numel() / x.size(-1);
  TORCH_CHECK_VALUE(rows <= kMost, "[feed_forward] too many rows: ", rows);
  return static_cast<int>(rows);
}

std::vector<std::int64_t> with_width(const at::Tensor& x, std::int64_t width) {
  std::vector<std::int64_t> sizes = x.sizes().vec();
  sizes.back() = width;
  return sizes;
}

Three feed_forward_cuda(const at::Tensor& x_, const at::Tensor& inner_, const at::Tensor& bias_,
                        const at::Tensor& outer) {
  check_feed_forward(x_, inner_, bias_, outer);
  TORCH_CHECK_VALUE(has_kernel(x_, inner_, outer),
                    "[feed_forward] on CUDA takes bfloat16 with widths of multiples of 64 on "
                    "compute capability 9.0, got ",
                    x_.scalar_type(), " with weights ", inner_.sizes(), " and ", outer.sizes());
  const at::OptionalDeviceGuard guard(x_.device());
  const at::Tensor x = aligned(x_);
  const at::Tensor inner = aligned(inner_);
  const at::Tensor bias = aligned(bias_);
  const at::Tensor h = at::empty(with_width(x, inner.size(0)), x.options());
  const at::Tensor slope = at::empty_like(h, h.options().dtype(slope_type(x.scalar_type())));
  const products::Forward job{.a = x.const_data_ptr(),
                              .b = inner.const_data_ptr(),
                              .bias = bias.const_data_ptr<float>(),
                              .h = h.mutable_data_ptr(),
                              .slope = slope.mutable_data_ptr(),
                              .rows = rows_of(x),
                              .columns = static_cast<int>(inner.size(0)),
                              .depth = static_cast<int>(inner.size(1)),
                              .processors = processors_for(x)};
  if (job.rows > 0) check_launched(products::launch_forward(job, stream_of(x).handle));
  return {at::linear(h, outer), h, slope};
}

Two feed_forward_backward_cuda(const at::Tensor& grad_, const at::Tensor& outer_,
                               const at::Tensor& slope_) {
  check_feed_forward_backward(grad_, outer_, slope_);
  const at::OptionalDeviceGuard guard(grad_.device());
  const at::Tensor grad = aligned(grad_);
  const at::Tensor outer = aligned(outer_);
  const at::Tensor slope = aligned(slope_);
  const std::int64_t width = outer.size(1);
  const at::Tensor d = at::empty(with_width(grad, width), grad.options());
  const auto wide = grad.options().dtype(at::kFloat);
  const int rows = rows_of(grad);
  if (rows == 0) return {d, at::zeros({width}, wide)};
  const at::Tensor parts = at::empty({products::partial_rows(rows), width}, wide);
  const at::Tensor sums = at::empty({width}, wide);
  const products::Backward job{.a = grad.const_data_ptr(),
                               .b = outer.const_data_ptr(),
                               .slope = slope.const_data_ptr(),
                               .dx = d.mutable_data_ptr(),
                               .partial = parts.mutable_data_ptr<float>(),
                               .rows = rows,
                               .columns = static_cast<int>(width),
                               .depth = static_cast<int>(outer.size(0)),
                               .processors = processors_for(grad)};
  void* stream = stream_of(grad).handle;
  check_launched(products::launch_backward(job, stream));
  check_launched(
      cuda::launch_column_sums(parts.const_data_ptr<float>(),
                               {.sums = {sums.mutable_data_ptr<float>()}, .width = job.columns},
                               parts.size(0), job.columns, stream));
  return {d, sums};
}

}  // namespace

bool feed_forward_fits(const at::Tensor& x, const at::Tensor& inner, const at::Tensor& outer) {
  constexpr std::int64_t kLeastRows = 2048;  // fewer do not fill the device
  const auto plain = [](const at::Tensor& t) {
    return t.is_cuda() && t.scalar_type() == at::kBFloat16 &&
           !t.key_set().has(c10::DispatchKey::FuncTorchBatched) &&
           !t.key_set().has(c10::DispatchKey::FuncTorchGradWrapper);
  };
  return plain(x) && plain(inner) && plain(outer) && x.dim() >= 2 && inner.dim() == 2 &&
         outer.dim() == 2 && has_kernel(x, inner, outer) && x.numel() >= kLeastRows * inner.size(1);
}

#else

bool feed_forward_fits(const at::Tensor& /*x*/, const at::Tensor& /*inner*/,
                       const at::Tensor& /*outer*/) {
  return false;
}

#endif

}  // namespace rotary::torch

#ifdef ROTARY_TORCH_CUDA_KERNELS
TORCH_LIBRARY_IMPL(rotary, CUDA, m) {
  m.impl("feed_forward", rotary::torch::feed_forward_cuda);
  m.impl("feed_forward_backward", rotary::torch::feed_forward_backward_cuda);
}
#endif
