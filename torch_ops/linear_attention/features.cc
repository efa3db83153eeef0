// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

#include "linear_attention/features.h"

#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>
#include <torch/library.h>

#include <algorithm>
#include <cmath>

#include "linear_attention/rows.h"
#include "linear_attention/sums.h"

namespace rotary::torch {
namespace {

constexpr double kFavorEpsilon = 1e-4;  // of the authors' code

double root_of(const at::Tensor& products) {
  return std::pow(static_cast<double>(products.size(-1)), -0.5);
}

at::Tensor favor_features(const at::Tensor& x, Side side, const LinearAttendOptions& options) {
  const Projected p(x, *options.projection);
  const at::Tensor constant = p.products.detach();
  if (side == Side::kQuery) return p.features(constant.amax({-1}, true), x.scalar_type());
  if (options.causal) return p.features(std::nullopt, x.scalar_type());
  return p.features(constant.amax({-2, -1}, /*keepdim=*/true), x.scalar_type());
}

}  // namespace

double favor_shrink(const at::Tensor& projection) {
  return std::pow(static_cast<double>(projection.size(1)), -0.25);
}

Projected::Projected(const at::Tensor& x, const at::Tensor& projection) {
  const at::ScalarType wide = wide_type(x.scalar_type());
  scaled = x.to(wide) * favor_shrink(projection);
  products = at::matmul(scaled, projection.to(wide).transpose(0, 1));
  half_square = scaled.square().sum(-1, /*keepdim=*/true) * 0.5;
}

at::Tensor Projected::exponentials(const std::optional<at::Tensor>& c) const {
  const at::Tensor exponents = products - (c.has_value() ? half_square + *c : half_square);
  return exponents.exp() * root_of(products);
}

at::Tensor Projected::features(const std::optional<at::Tensor>& c, at::ScalarType type) const {
  const at::Tensor result = exponentials(c) + kFavorEpsilon * root_of(products);
  return type == at::kHalf ? result : result.to(type);
}

at::Tensor feature_map(const at::Tensor& x, Side side, const LinearAttendOptions& options) {
  switch (options.feature_map) {
    case FeatureMap::kElu:
      return call_elu_plus_one(x);
    case FeatureMap::kRelu:
      return at::relu(x);
    case FeatureMap::kFavor:
      break;
  }
  return favor_features(x, side, options);
}

at::Tensor orthogonal_features(std::int64_t features, std::int64_t head_dim,
                               std::optional<at::Generator> generator) {
  TORCH_CHECK_VALUE(features > 0 && head_dim > 0,
                    "[orthogonal_features] features and head_dim must be positive, got ", features,
                    " and ", head_dim);
  const std::int64_t blocks = (features + head_dim - 1) / head_dim;
  const auto wide = at::TensorOptions(at::kDouble);
  const at::Tensor gaussian = at::randn({blocks, head_dim, head_dim}, generator, wide);
  const auto [q, r] = at::linalg_qr(gaussian);
  // Uniform among the orthogonal matrices only with the signs of R's diagonal.
  const at::Tensor directions = q * r.diagonal(0, -2, -1).sign().unsqueeze(-2);
  const at::Tensor lengths =
      at::randn({features, head_dim}, generator, wide).square().sum(-1, /*keepdim=*/true).sqrt();
  return (directions.reshape({blocks * head_dim, head_dim}).narrow(0, 0, features) * lengths)
      .to(at::kFloat);
}

std::int64_t default_features(std::int64_t head_dim) {
  const double wanted = static_cast<double>(head_dim) * std::log(static_cast<double>(head_dim));
  return std::max<std::int64_t>(16, 16 * static_cast<std::int64_t>(std::ceil(wanted / 16.0)));
}

}  // namespace rotary::torch

TORCH_LIBRARY_FRAGMENT(rotary, m) {
  m.def("orthogonal_features(int features, int head_dim, *, Generator? generator=None) -> Tensor",
        {at::Tag::nondeterministic_seeded});
}
TORCH_LIBRARY_IMPL(rotary, CompositeImplicitAutograd, m) {
  m.impl("orthogonal_features", rotary::torch::orthogonal_features);
}
