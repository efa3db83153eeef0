// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// The sums on CPU and CUDA: what they ask of their tensors, and how they are put together.

#include "linear_attention/sums.h"

#include <ATen/Context.h>
#include <ATen/DeviceGuard.h>
#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>
#include <torch/library.h>
#include <torch/version.h>

#include "linear_attention/sums_device.h"

namespace rotary::torch {
namespace {

using OptionalTensor = std::optional<at::Tensor>;

void check_type(const char* function, const at::Tensor& x) {
  TORCH_CHECK_VALUE(x.scalar_type() == at::kFloat || x.scalar_type() == at::kDouble ||
                        x.scalar_type() == at::kBFloat16 || x.scalar_type() == at::kHalf,
                    "[", function, "] tensors must be float32, float64, bfloat16 or float16, got ",
                    x.scalar_type());
  TORCH_CHECK_VALUE(x.dim() >= 2, "[", function, "] tensors must be [.., tokens, features], got ",
                    x.sizes());
}

void check_like(const char* function, const at::Tensor& x, const at::Tensor& other,
                std::int64_t same_dims) {
  const bool shapes =
      other.dim() == x.dim() && other.sizes().slice(0, same_dims) == x.sizes().slice(0, same_dims);
  TORCH_CHECK_VALUE(shapes, "[", function, "] shapes do not fit: ", x.sizes(), " and ",
                    other.sizes());
  TORCH_CHECK_VALUE(other.scalar_type() == x.scalar_type() && other.device() == x.device(), "[",
                    function, "] tensors must have one type and device, got ", x.scalar_type(),
                    " on ", x.device(), " and ", other.scalar_type(), " on ", other.device());
}

void check_factors(const char* function, const at::Tensor& x, const OptionalTensor& factors) {
  if (!factors.has_value()) return;
  TORCH_CHECK_VALUE(factors->sizes() == x.sizes().slice(0, x.dim() - 1), "[", function,
                    "] scale and weight must be [.., tokens] of ", x.sizes(), ", got ",
                    factors->sizes());
  TORCH_CHECK_VALUE(
      factors->scalar_type() == wide_type(x.scalar_type()) && factors->device() == x.device(), "[",
      function, "] scale and weight must be ", wide_type(x.scalar_type()), " on ", x.device(),
      ", got ", factors->scalar_type(), " on ", factors->device());
}

void check_ordered(const char* function, Direction direction) {
  TORCH_CHECK_VALUE(direction != Direction::kAll, "[", function,
                    "] direction must be causal or reverse, got all");
}

/// [rows, tokens, width] without gaps.
at::Tensor as_rows(const at::Tensor& x) { return dense(x).view({-1, x.size(-2), x.size(-1)}); }
at::Tensor rows_of_factors(const at::Tensor& factors) {
  return factors.contiguous().view({-1, factors.size(-1)});
}

// Products of 16-bit matrices with 32-bit results: of CUDA, in PyTorch from 2.8 on.
#if TORCH_VERSION_MAJOR > 2 || TORCH_VERSION_MINOR >= 8
constexpr bool kHasWideProducts = true;
at::Tensor widening_product(const at::Tensor& a, const at::Tensor& b) {
  return at::bmm(a, b, at::kFloat);
}
at::Tensor widening_sum(const at::Tensor& sum, const at::Tensor& a, const at::Tensor& b) {
  return at::baddbmm(sum, a, b, at::kFloat);
}
#else
constexpr bool kHasWideProducts = false;
at::Tensor widening_product(const at::Tensor& a, const at::Tensor& b) {
  return at::bmm(a.to(at::kFloat), b.to(at::kFloat));
}
at::Tensor widening_sum(const at::Tensor& sum, const at::Tensor& a, const at::Tensor& b) {
  return at::baddbmm(sum, a.to(at::kFloat), b.to(at::kFloat));
}
#endif

/// The product of matrices in the wide type.
at::Tensor wide_product(const at::Tensor& a, const at::Tensor& b) {
  return a.scalar_type() == wide_type(a.scalar_type()) ? at::bmm(a, b) : widening_product(a, b);
}

void add_product(at::Tensor& sum, const at::Tensor& a, const at::Tensor& b) {
  if (a.scalar_type() == sum.scalar_type()) {
    sum.baddbmm_(a, b);
  } else {
    sum = widening_sum(sum, a, b);
  }
}

constexpr std::int64_t kChunk = 64;

/// [rows, tokens, width] as chunks [rows * chunks, kChunk, width], the last filled with zeros.
at::Tensor in_chunks(const at::Tensor& x, std::int64_t chunk, std::int64_t chunks) {
  const std::int64_t missing = chunk * chunks - x.size(1);
  const at::Tensor whole = missing == 0 ? x : at::constant_pad_nd(x, {0, 0, 0, missing});
  return whole.view({x.size(0) * chunks, chunk, x.size(2)});
}

/// Products of matrices alone: inside every chunk the quadratic form, and between chunks the state
/// sum y_j w_j^T of those before. Wide result [rows, tokens, E].
at::Tensor product_in_chunks(const at::Tensor& x, const at::Tensor& y, const at::Tensor& w,
                             bool reverse) {
  const std::int64_t tokens = x.size(1);
  const std::int64_t chunk = std::min(tokens, kChunk);
  const std::int64_t chunks = (tokens + chunk - 1) / chunk;
  const at::Tensor xs = in_chunks(x, chunk, chunks);
  const at::Tensor ys = in_chunks(y, chunk, chunks);
  const at::Tensor ws = in_chunks(w, chunk, chunks);
  at::Tensor out;
  {
    at::Tensor scores = wide_product(xs, ys.transpose(1, 2));
    reverse ? scores.triu_() : scores.tril_();
    out = wide_product(scores.to(w.scalar_type()), ws);
  }
  if (chunks > 1) {
    at::Tensor states = wide_product(ys.transpose(1, 2), ws);
    exclusive_scan_(states.view({x.size(0), chunks, -1}), reverse);
    add_product(out, xs, states.to(x.scalar_type()));
  }
  return out.view({x.size(0), chunk * chunks, w.size(2)}).narrow(1, 0, tokens);
}

/// x (y^T w). The state is wide; the second product has it in the type of x, divided by its
/// largest number, so that float16 holds it.
at::Tensor product_of_all(const at::Tensor& x, const at::Tensor& y, const at::Tensor& w) {
  const at::Tensor state = wide_product(y.transpose(1, 2), w);
  if (x.scalar_type() == state.scalar_type()) return at::bmm(x, state);
  const at::Tensor most = state.abs().amax({1, 2}, /*keepdim=*/true).clamp_min(1e-30);
  return wide_product(x, (state / most).to(x.scalar_type())).mul_(most);
}

at::Tensor product(const at::Tensor& x, const at::Tensor& y, const at::Tensor& w,
                   const OptionalTensor& scale, std::string_view name) {
  const char* function = "linear_product";
  const Direction direction = direction_of(name);
  check_type(function, x);
  check_like(function, x, y, x.dim() - (direction == Direction::kAll ? 2 : 1));
  check_like(function, y, w, x.dim() - 1);
  TORCH_CHECK_VALUE(x.size(-1) == y.size(-1), "[", function,
                    "] features of x and y differ: ", x.size(-1), " and ", y.size(-1));
  check_factors(function, x, scale);
  const at::OptionalDeviceGuard guard(x.device());
  c10::DimVector sizes(x.sizes());
  sizes.back() = w.size(-1);
  if (c10::multiply_integers(sizes) == 0 || y.numel() == 0) return at::zeros(sizes, w.options());
  const bool reverse = direction == Direction::kReverse;
  if (direction != Direction::kAll && has_product_kernel(x, w)) {
    return product_by_kernel(x, y, w, scale, reverse);
  }
  const bool narrow = x.is_cuda() && kHasWideProducts;
  const at::ScalarType type = narrow ? x.scalar_type() : wide_type(x.scalar_type());
  const at::Tensor xs = as_rows(x).to(type);
  const at::Tensor ys = as_rows(y).to(type);
  const at::Tensor ws = as_rows(w).to(type);
  at::Tensor out = direction == Direction::kAll ? product_of_all(xs, ys, ws)
                                                : product_in_chunks(xs, ys, ws, reverse);
  if (scale.has_value()) out.mul_(rows_of_factors(*scale).unsqueeze(-1));
  return out.to(w.scalar_type()).contiguous().view(sizes);
}

at::Tensor dot(const at::Tensor& x, const at::Tensor& y, std::string_view name) {
  const Direction direction = direction_of(name);
  check_ordered("linear_dot", direction);
  check_type("linear_dot", x);
  check_like("linear_dot", x, y, x.dim());
  const at::OptionalDeviceGuard guard(x.device());
  const auto type = wide_type(x.scalar_type());
  if (x.numel() == 0) return at::zeros(x.sizes().slice(0, x.dim() - 1), x.options().dtype(type));
  const at::Tensor out = at::empty(x.sizes().slice(0, x.dim() - 1), x.options().dtype(type));
  dot_along(as_rows(x), as_rows(y), out, direction == Direction::kReverse);
  return out;
}

at::Tensor sum(const at::Tensor& x, const OptionalTensor& weight, const OptionalTensor& scale,
               std::string_view name) {
  const Direction direction = direction_of(name);
  check_ordered("linear_sum", direction);
  check_type("linear_sum", x);
  check_factors("linear_sum", x, weight);
  check_factors("linear_sum", x, scale);
  const at::OptionalDeviceGuard guard(x.device());
  const at::Tensor out = at::empty(x.sizes(), x.options());
  if (x.numel() == 0) return out;
  const auto rows = [](const OptionalTensor& factors) -> OptionalTensor {
    return factors.has_value() ? OptionalTensor(rows_of_factors(*factors)) : std::nullopt;
  };
  sum_along(as_rows(x), rows(weight), rows(scale), out, direction == Direction::kReverse);
  return out;
}

}  // namespace
}  // namespace rotary::torch

TORCH_LIBRARY_IMPL(rotary, CPU, m) {
  m.impl("linear_product", rotary::torch::product);
  m.impl("linear_dot", rotary::torch::dot);
  m.impl("linear_sum", rotary::torch::sum);
}

TORCH_LIBRARY_IMPL(rotary, CUDA, m) {
  m.impl("linear_product", rotary::torch::product);
  m.impl("linear_dot", rotary::torch::dot);
  m.impl("linear_sum", rotary::torch::sum);
}
