// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

#include "transformer/linear_attention/features.h"

#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>
#include <torch/library.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "transformer/linear_attention/check.h"
#include "transformer/linear_attention/favor.h"
#include "transformer/linear_attention/favor_kernels.h"
#include "transformer/linear_attention/rowwise.h"
#include "transformer/linear_attention/scans.h"

namespace rotary::transformer {
namespace {

using OptionalTensor = std::optional<at::Tensor>;

constexpr double kFavorEpsilon = 1e-4;  // as in the authors' code

/// head_dim^(-1/4).
double favor_input_scale(const at::Tensor& projection) {
  return std::pow(static_cast<double>(projection.size(1)), -0.25);
}

/// Terms of FAVOR+'s exponents, in the accumulator type: w . x' [.., features], x', |x'|^2 / 2 [..,
/// 1].
struct Projected {
  Projected(const at::Tensor& x, const at::Tensor& projection) {
    const at::ScalarType accum = accum_type(x.scalar_type());
    scaled = x.to(accum) * favor_input_scale(projection);
    products = at::matmul(scaled, projection.to(accum).transpose(0, 1));
    half_square = scaled.square().sum(-1, /*keepdim=*/true) * 0.5;
    feature_scale = std::pow(static_cast<double>(projection.size(0)), -0.5);
  }
  /// exp(w . x' - |x'|^2 / 2 - c) / sqrt(features).
  at::Tensor exponentials(const OptionalTensor& c) const {
    const at::Tensor exponents = products - (c.has_value() ? half_square + *c : half_square);
    return exponents.exp() * feature_scale;
  }
  /// phi in `type`, or in float for float16, which would overflow on the exponentials of keys.
  at::Tensor features(const OptionalTensor& c, at::ScalarType type) const {
    const at::Tensor result = exponentials(c) + kFavorEpsilon * feature_scale;
    return type == at::kHalf ? result : result.to(type);
  }

  at::Tensor products;
  at::Tensor scaled;
  at::Tensor half_square;
  double feature_scale = 0.0;
};

/// Stabiliser of keys: the largest product of a head, of packed sequences that of each sequence.
at::Tensor largest_of_keys(const at::Tensor& products, const LinearAttendOptions& options) {
  if (!options.cu_seqlens.has_value()) return products.amax({-2, -1}, /*keepdim=*/true);
  const at::Tensor of_tokens = products.amax({-1}, /*keepdim=*/true);
  const auto ends = read_boundaries(*options.cu_seqlens, products.size(-2));
  std::vector<at::Tensor> parts;
  for (std::size_t s = 0; s + 1 < ends.size(); ++s) {
    if (ends[s] == ends[s + 1]) continue;
    const at::Tensor part = of_tokens.narrow(-2, ends[s], ends[s + 1] - ends[s]);
    parts.push_back(part.amax({-2}, /*keepdim=*/true).expand_as(part));
  }
  return parts.empty() ? of_tokens : at::cat(parts, -2);
}

at::Tensor favor_features(const at::Tensor& x, Side side, const LinearAttendOptions& options) {
  const Projected p(x, *options.projection);
  const at::Tensor constant = p.products.detach();
  if (side == Side::kQuery) return p.features(constant.amax({-1}, true), x.scalar_type());
  if (options.causal) return p.features(std::nullopt, x.scalar_type());
  return p.features(largest_of_keys(constant, options), x.scalar_type());
}

at::Tensor masked_features(const at::Tensor& features, const OptionalTensor& padding) {
  return padding ? at::where(padding->unsqueeze(1).unsqueeze(-1), features, 0) : features;
}

/// Gradient of x, with phi' the exponentials and g the gradient of phi: sum_f g_f phi'_f (w_f -
/// x').
at::Tensor input_gradient(const at::Tensor& g, const Projected& p, const OptionalTensor& c,
                          const at::Tensor& projection, at::ScalarType type) {
  const at::Tensor t = g * p.exponentials(c);
  const at::Tensor projected = at::matmul(t, projection.to(t.scalar_type()));
  return ((projected - t.sum(-1, /*keepdim=*/true) * p.scaled) * favor_input_scale(projection))
      .to(type);
}

/// R x of adjacent pairs; with sign -1 R^T x.
at::Tensor rotate_features(const at::Tensor& x, const FavorInputs& in, double sign) {
  if (!in.cos_sin.has_value()) return x;
  const at::Tensor pairs = x.unflatten_symint(-1, {x.sym_size(-1) / 2, 2});
  const at::Tensor cos = in.cos_sin->select(-1, 0).to(x.scalar_type());
  const at::Tensor sin = in.cos_sin->select(-1, 1).to(x.scalar_type()) * sign;
  const at::Tensor a = pairs.select(-1, 0);
  const at::Tensor b = pairs.select(-1, 1);
  return at::stack({a * cos - b * sin, a * sin + b * cos}, -1).flatten(-2);
}

}  // namespace

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

c10::SymDimVector favor_prefix_sizes(const FavorInputs& in) {
  const c10::SymInt tiles = (in.q.sym_size(2) + cuda::kFavorTile - 1) / cuda::kFavorTile;
  return {in.q.sym_size(0) * in.q.sym_size(1), tiles, in.projection.sym_size(0)};
}

FavorResults favor_by_tensors(const FavorInputs& in) {
  const at::ScalarType type = in.q.scalar_type();
  const Projected queries(in.q, in.projection);
  const at::Tensor row_max = queries.products.amax({-1}, /*keepdim=*/true);
  const at::Tensor phi_q = queries.features(row_max, type);
  const at::Tensor phi_k =
      masked_features(Projected(in.k, in.projection).features(std::nullopt, type), in.padding);
  return {rotate_features(phi_q, in, 1.0), rotate_features(phi_k, in, 1.0),
          call_linear_dot(phi_q, phi_k, Direction::kCausal), row_max.squeeze(-1),
          at::zeros_symint(favor_prefix_sizes(in), row_max.options())};
}

FavorGradients favor_gradients_by_tensors(const FeatureGradients& g, const FavorInputs& in,
                                          const at::Tensor& row_max) {
  const at::ScalarType type = in.q.scalar_type();
  const at::ScalarType accum = accum_type(type);
  const Projected queries(in.q, in.projection);
  const Projected keys(in.k, in.projection);
  const at::Tensor c = row_max.unsqueeze(-1);
  const auto given = [&](const OptionalTensor& x, const Projected& like) {
    return x.has_value() ? rotate_features(x->to(accum), in, -1.0) : at::zeros_like(like.products);
  };
  at::Tensor d_phi_q = given(g.queries, queries);
  at::Tensor d_phi_k = given(g.keys, keys);
  if (g.dots.has_value()) {
    const at::Tensor dots = g.dots->contiguous();
    d_phi_q =
        d_phi_q + call_linear_sum(masked_features(keys.features(std::nullopt, accum), in.padding),
                                  std::nullopt, dots, Direction::kCausal);
    d_phi_k = d_phi_k +
              call_linear_sum(queries.features(c, accum), dots, std::nullopt, Direction::kReverse);
  }
  return {input_gradient(d_phi_q, queries, c, in.projection, type),
          input_gradient(masked_features(d_phi_k, in.padding), keys, std::nullopt, in.projection,
                         type)};
}

at::Tensor orthogonal_features(std::int64_t features, std::int64_t head_dim,
                               std::optional<at::Generator> generator) {
  TORCH_CHECK_VALUE(features > 0 && head_dim > 0,
                    "[orthogonal_features] features and head_dim must be positive, got ", features,
                    " and ", head_dim);
  const std::int64_t blocks = (features + head_dim - 1) / head_dim;
  const auto options = at::TensorOptions(at::kDouble);
  const at::Tensor gaussian = at::randn({blocks, head_dim, head_dim}, generator, options);
  const auto [q, r] = at::linalg_qr(gaussian);
  // Haar measure: QR is uniform over orthogonal matrices only with the signs of R's diagonal.
  const at::Tensor directions = q * r.diagonal(0, -2, -1).sign().unsqueeze(-2);
  const at::Tensor lengths =
      at::randn({features, head_dim}, generator, options).square().sum(-1, /*keepdim=*/true).sqrt();
  return (directions.reshape({blocks * head_dim, head_dim}).narrow(0, 0, features) * lengths)
      .to(at::kFloat);
}

std::int64_t default_features(std::int64_t head_dim) {
  constexpr std::int64_t kMultiple = 64;
  const double wanted = static_cast<double>(head_dim) * std::log(static_cast<double>(head_dim));
  return kMultiple * std::max<std::int64_t>(1, std::llround(wanted / kMultiple));
}

}  // namespace rotary::transformer

TORCH_LIBRARY_FRAGMENT(rotary, m) {
  m.def("orthogonal_features(int features, int head_dim, *, Generator? generator=None) -> Tensor",
        {at::Tag::nondeterministic_seeded});
}
TORCH_LIBRARY_IMPL(rotary, CompositeImplicitAutograd, m) {
  m.impl("orthogonal_features", rotary::transformer::orthogonal_features);
}
