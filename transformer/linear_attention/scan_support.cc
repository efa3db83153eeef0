// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

#include "transformer/linear_attention/scan_support.h"

#include <ATen/Functions.h>

#include "transformer/linear_attention/scans.h"
#include "transformer/linear_attention/scans_device.h"

namespace rotary::transformer {
namespace {

#if TORCH_VERSION_MAJOR > 2 || TORCH_VERSION_MINOR >= 8
at::Tensor bmm_to_float(const at::Tensor& a, const at::Tensor& b) {
  return at::bmm(a, b, at::kFloat);
}
at::Tensor baddbmm_to_float(const at::Tensor& sum, const at::Tensor& a, const at::Tensor& b) {
  return at::baddbmm(sum, a, b, at::kFloat);
}
#else
at::Tensor bmm_to_float(const at::Tensor& a, const at::Tensor& b) {
  return at::bmm(a.to(at::kFloat), b.to(at::kFloat));
}
at::Tensor baddbmm_to_float(const at::Tensor& sum, const at::Tensor& a, const at::Tensor& b) {
  return at::baddbmm(sum, a.to(at::kFloat), b.to(at::kFloat));
}
#endif

}  // namespace

void check_scan_type(const char* function, const at::Tensor& x) {
  TORCH_CHECK_VALUE(x.scalar_type() == at::kFloat || x.scalar_type() == at::kDouble ||
                        x.scalar_type() == at::kBFloat16 || x.scalar_type() == at::kHalf,
                    "[", function, "] tensors must be float32, float64, bfloat16 or float16, got ",
                    x.scalar_type());
  TORCH_CHECK_VALUE(x.dim() >= 2, "[", function, "] tensors must be [.., tokens, features], got ",
                    x.sizes());
}

void check_scan_like(const char* function, const at::Tensor& x, const at::Tensor& other,
                     std::int64_t same_dims) {
  const bool shapes =
      other.dim() == x.dim() && other.sizes().slice(0, same_dims) == x.sizes().slice(0, same_dims);
  TORCH_CHECK_VALUE(shapes, "[", function, "] shapes do not fit: ", x.sizes(), " and ",
                    other.sizes());
  TORCH_CHECK_VALUE(other.scalar_type() == x.scalar_type() && other.device() == x.device(), "[",
                    function, "] tensors must have one type and device, got ", x.scalar_type(),
                    " on ", x.device(), " and ", other.scalar_type(), " on ", other.device());
}

void check_scan_factors(const char* function, const at::Tensor& x,
                        const std::optional<at::Tensor>& factors) {
  if (!factors.has_value()) return;
  TORCH_CHECK_VALUE(factors->sizes() == x.sizes().slice(0, x.dim() - 1), "[", function,
                    "] scale and weight must be [.., tokens] of ", x.sizes(), ", got ",
                    factors->sizes());
  TORCH_CHECK_VALUE(
      factors->scalar_type() == accum_type(x.scalar_type()) && factors->device() == x.device(), "[",
      function, "] scale and weight must be ", accum_type(x.scalar_type()), " on ", x.device(),
      ", got ", factors->scalar_type(), " on ", factors->device());
}

at::Tensor flatten_batch(const at::Tensor& x) {
  return dense(x).view({-1, x.size(-2), x.size(-1)});
}

at::Tensor flatten_factors(const at::Tensor& factors) {
  return factors.contiguous().view({-1, factors.size(-1)});
}

at::Tensor to_chunks(const at::Tensor& x, std::int64_t chunk, std::int64_t chunks) {
  const std::int64_t missing = chunk * chunks - x.size(1);
  const at::Tensor padded = missing == 0 ? x : at::constant_pad_nd(x, {0, 0, 0, missing});
  return padded.view({x.size(0) * chunks, chunk, x.size(2)});
}

at::Tensor accum_bmm(const at::Tensor& a, const at::Tensor& b) {
  return a.scalar_type() == accum_type(a.scalar_type()) ? at::bmm(a, b) : bmm_to_float(a, b);
}

void add_bmm(at::Tensor& sum, const at::Tensor& a, const at::Tensor& b) {
  if (a.scalar_type() == sum.scalar_type()) {
    sum.baddbmm_(a, b);
  } else {
    sum = baddbmm_to_float(sum, a, b);
  }
}

}  // namespace rotary::transformer
