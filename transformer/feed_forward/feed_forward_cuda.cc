// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// torch.ops.rotary.feed_forward and feed_forward_backward on CUDA.

#include <ATen/DeviceGuard.h>
#include <ATen/Functions.h>
#include <torch/library.h>

#include <limits>
#include <tuple>
#include <vector>

#include "pytorch/cuda_stream.h"
#include "transformer/feed_forward/checks.h"
#include "transformer/feed_forward/feed_forward.h"
#include "transformer/feed_forward/kernels.h"
#include "transformer/kernels/aligned.h"
#include "transformer/kernels/hopper/device.h"
#include "transformer/kernels/launch.h"
#include "transformer/layers/kernels.h"

namespace rotary::transformer {

#ifdef ROTARY_TORCH_CUDA_KERNELS

namespace {

using Two = std::tuple<at::Tensor, at::Tensor>;
using Three = std::tuple<at::Tensor, at::Tensor, at::Tensor>;

namespace gemms = hopper::feed_forward;

constexpr std::int64_t kWidthMultiple = 64;

int num_sms_of(const at::Tensor& x) { return hopper::num_sms(x.device().index()); }

bool has_kernel(const at::Tensor& x, const at::Tensor& inner, const at::Tensor& outer) {
  const auto fits = [](std::int64_t width) { return width > 0 && width % kWidthMultiple == 0; };
  return x.scalar_type() == at::kBFloat16 && fits(inner.size(0)) && fits(inner.size(1)) &&
         fits(outer.size(0)) && num_sms_of(x) > 0;
}

int rows_of(const at::Tensor& x) {
  constexpr std::int64_t kMaxRows = std::numeric_limits<std::int32_t>::max() / 2;
  const std::int64_t rows = x.size(-1) == 0 ? 0 : x.numel() / x.size(-1);
  TORCH_CHECK_VALUE(rows <= kMaxRows, "[feed_forward] too many rows: ", rows);
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
  const at::Tensor derivative =
      at::empty_like(h, h.options().dtype(derivative_type(x.scalar_type())));
  const gemms::ForwardParams params{.gemm = {.a = x.const_data_ptr(),
                                             .b = inner.const_data_ptr(),
                                             .rows = rows_of(x),
                                             .columns = static_cast<int>(inner.size(0)),
                                             .depth = static_cast<int>(inner.size(1)),
                                             .num_sms = num_sms_of(x)},
                                    .bias = bias.const_data_ptr<float>(),
                                    .h = h.mutable_data_ptr(),
                                    .gelu_derivative = derivative.mutable_data_ptr()};
  if (params.gemm.rows > 0)
    check_launch("feed_forward", gemms::launch_forward(params, torch::stream_of(x).handle));
  return {at::linear(h, outer), h, derivative};
}

Two feed_forward_backward_cuda(const at::Tensor& grad_, const at::Tensor& outer_,
                               const at::Tensor& derivative_) {
  check_feed_forward_backward(grad_, outer_, derivative_);
  const at::OptionalDeviceGuard guard(grad_.device());
  const at::Tensor grad = aligned(grad_);
  const at::Tensor outer = aligned(outer_);
  const at::Tensor derivative = aligned(derivative_);
  const std::int64_t width = outer.size(1);
  const at::Tensor dz = at::empty(with_width(grad, width), grad.options());
  const auto float32 = grad.options().dtype(at::kFloat);
  const int rows = rows_of(grad);
  if (rows == 0) return {dz, at::zeros({width}, float32)};
  const at::Tensor partial = at::empty({gemms::partial_rows(rows), width}, float32);
  const at::Tensor dbias = at::empty({width}, float32);
  const gemms::BackwardParams params{.gemm = {.a = grad.const_data_ptr(),
                                              .b = outer.const_data_ptr(),
                                              .rows = rows,
                                              .columns = static_cast<int>(width),
                                              .depth = static_cast<int>(outer.size(0)),
                                              .num_sms = num_sms_of(grad)},
                                     .gelu_derivative = derivative.const_data_ptr(),
                                     .dz = dz.mutable_data_ptr(),
                                     .partial = partial.mutable_data_ptr<float>()};
  void* stream = torch::stream_of(grad).handle;
  check_launch("feed_forward", gemms::launch_backward(params, stream));
  check_launch("feed_forward",
               cuda::launch_column_sums(
                   partial.const_data_ptr<float>(),
                   {.sums = {dbias.mutable_data_ptr<float>()}, .width = params.gemm.columns},
                   partial.size(0), params.gemm.columns, stream));
  return {dz, dbias};
}

}  // namespace

bool use_fused_feed_forward(const at::Tensor& x, const at::Tensor& inner, const at::Tensor& outer) {
  constexpr std::int64_t kMinRows = 2048;  // fewer do not fill the device
  const auto plain = [](const at::Tensor& t) {
    return t.is_cuda() && t.scalar_type() == at::kBFloat16 &&
           !t.key_set().has(c10::DispatchKey::FuncTorchBatched) &&
           !t.key_set().has(c10::DispatchKey::FuncTorchGradWrapper);
  };
  return plain(x) && plain(inner) && plain(outer) && x.dim() >= 2 && inner.dim() == 2 &&
         outer.dim() == 2 && has_kernel(x, inner, outer) && x.numel() >= kMinRows * inner.size(1);
}

#else

bool use_fused_feed_forward(const at::Tensor& /*x*/, const at::Tensor& /*inner*/,
                            const at::Tensor& /*outer*/) {
  return false;
}

#endif

}  // namespace rotary::transformer

#ifdef ROTARY_TORCH_CUDA_KERNELS
TORCH_LIBRARY_IMPL(rotary, CUDA, m) {
  m.impl("feed_forward", rotary::transformer::feed_forward_cuda);
  m.impl("feed_forward_backward", rotary::transformer::feed_forward_backward_cuda);
}
#endif
