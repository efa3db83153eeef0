// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// The scans on CPU and CUDA: argument checks, and the choice between kernels and matrix products.

#include "transformer/linear_attention/scans.h"

#include <ATen/Context.h>
#include <ATen/DeviceGuard.h>
#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>
#include <torch/library.h>

#include "transformer/linear_attention/scan_support.h"
#include "transformer/linear_attention/scans_device.h"

namespace rotary::transformer {
namespace {

using OptionalTensor = std::optional<at::Tensor>;

void check_is_scan(const char* function, Direction direction) {
  TORCH_CHECK_VALUE(direction != Direction::kAll, "[", function,
                    "] direction must be causal or reverse, got all");
}

/// Chunked form by batched matrix products: intra-chunk scores, and the inter-chunk state
/// sum_j y_j w_j^T of the chunks before. Result [batch_heads, tokens, E] in the accumulator type.
at::Tensor chunked_product(const at::Tensor& x, const at::Tensor& y, const at::Tensor& w,
                           bool reverse) {
  const std::int64_t tokens = x.size(1);
  const std::int64_t chunk = std::min(tokens, kChunk);
  const std::int64_t chunks = (tokens + chunk - 1) / chunk;
  const at::Tensor xs = to_chunks(x, chunk, chunks);
  const at::Tensor ys = to_chunks(y, chunk, chunks);
  const at::Tensor ws = to_chunks(w, chunk, chunks);
  at::Tensor out;
  {
    at::Tensor scores = accum_bmm(xs, ys.transpose(1, 2));
    reverse ? scores.triu_() : scores.tril_();
    out = accum_bmm(scores.to(w.scalar_type()), ws);
  }
  if (chunks > 1) {
    at::Tensor states = accum_bmm(ys.transpose(1, 2), ws);
    exclusive_scan_(states.view({x.size(0), chunks, -1}), reverse);
    add_bmm(out, xs, states.to(x.scalar_type()));
  }
  return out.view({x.size(0), chunk * chunks, w.size(2)}).narrow(1, 0, tokens);
}

/// Bidirectional: x (y^T w). The state has the accumulator type; the second product takes it in the
/// type of x, divided by its largest magnitude, so that float16 does not overflow.
at::Tensor full_product(const at::Tensor& x, const at::Tensor& y, const at::Tensor& w) {
  const at::Tensor state = accum_bmm(y.transpose(1, 2), w);
  if (x.scalar_type() == state.scalar_type()) return at::bmm(x, state);
  const at::Tensor max_abs = state.abs().amax({1, 2}, /*keepdim=*/true).clamp_min(1e-30);
  return accum_bmm(x, (state / max_abs).to(x.scalar_type())).mul_(max_abs);
}

at::Tensor product_op(const at::Tensor& x, const at::Tensor& y, const at::Tensor& w,
                      const OptionalTensor& scale, std::string_view name) {
  const char* function = "linear_product";
  const Direction direction = direction_of(name);
  check_scan_type(function, x);
  check_scan_like(function, x, y, x.dim() - (direction == Direction::kAll ? 2 : 1));
  check_scan_like(function, y, w, x.dim() - 1);
  TORCH_CHECK_VALUE(x.size(-1) == y.size(-1), "[", function,
                    "] features of x and y differ: ", x.size(-1), " and ", y.size(-1));
  check_scan_factors(function, x, scale);
  const at::OptionalDeviceGuard guard(x.device());
  c10::DimVector sizes(x.sizes());
  sizes.back() = w.size(-1);
  if (c10::multiply_integers(sizes) == 0 || y.numel() == 0) return at::zeros(sizes, w.options());
  const bool reverse = direction == Direction::kReverse;
  if (direction != Direction::kAll && has_chunk_product(x, w)) {
    return chunk_product(x, y, w, scale, reverse);
  }
  const bool multiply_16_bit = x.is_cuda() && kHasFloatProducts;
  const at::ScalarType type = multiply_16_bit ? x.scalar_type() : accum_type(x.scalar_type());
  const at::Tensor xs = flatten_batch(x).to(type);
  const at::Tensor ys = flatten_batch(y).to(type);
  const at::Tensor ws = flatten_batch(w).to(type);
  at::Tensor out = direction == Direction::kAll ? full_product(xs, ys, ws)
                                                : chunked_product(xs, ys, ws, reverse);
  if (scale.has_value()) out.mul_(flatten_factors(*scale).unsqueeze(-1));
  return out.to(w.scalar_type()).contiguous().view(sizes);
}

at::Tensor dot_op(const at::Tensor& x, const at::Tensor& y, std::string_view name) {
  const Direction direction = direction_of(name);
  check_is_scan("linear_dot", direction);
  check_scan_type("linear_dot", x);
  check_scan_like("linear_dot", x, y, x.dim());
  const at::OptionalDeviceGuard guard(x.device());
  const auto type = accum_type(x.scalar_type());
  if (x.numel() == 0) return at::zeros(x.sizes().slice(0, x.dim() - 1), x.options().dtype(type));
  const at::Tensor out = at::empty(x.sizes().slice(0, x.dim() - 1), x.options().dtype(type));
  dot_scan(flatten_batch(x), flatten_batch(y), out, direction == Direction::kReverse);
  return out;
}

at::Tensor sum_op(const at::Tensor& x, const OptionalTensor& weight, const OptionalTensor& scale,
                  std::string_view name) {
  const Direction direction = direction_of(name);
  check_is_scan("linear_sum", direction);
  check_scan_type("linear_sum", x);
  check_scan_factors("linear_sum", x, weight);
  check_scan_factors("linear_sum", x, scale);
  const at::OptionalDeviceGuard guard(x.device());
  const at::Tensor out = at::empty(x.sizes(), x.options());
  if (x.numel() == 0) return out;
  const auto flatten = [](const OptionalTensor& factors) -> OptionalTensor {
    return factors.has_value() ? OptionalTensor(flatten_factors(*factors)) : std::nullopt;
  };
  sum_scan(flatten_batch(x), flatten(weight), flatten(scale), out,
           direction == Direction::kReverse);
  return out;
}

}  // namespace
}  // namespace rotary::transformer

TORCH_LIBRARY_IMPL(rotary, CPU, m) {
  m.impl("linear_product", rotary::transformer::product_op);
  m.impl("linear_dot", rotary::transformer::dot_op);
  m.impl("linear_sum", rotary::transformer::sum_op);
}

TORCH_LIBRARY_IMPL(rotary, CUDA, m) {
  m.impl("linear_product", rotary::transformer::product_op);
  m.impl("linear_dot", rotary::transformer::dot_op);
  m.impl("linear_sum", rotary::transformer::sum_op);
}
