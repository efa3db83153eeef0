// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// Linear attention: the scans over the features of numerator and denominator. Everything is
// composed of differentiable operators.

#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>

#include <vector>

#include "rotary/transformer/linear_attention.h"
#include "transformer/linear_attention/check.h"
#include "transformer/linear_attention/decay.h"
#include "transformer/linear_attention/feature_terms.h"
#include "transformer/linear_attention/rowwise.h"

namespace rotary::transformer {
namespace {

using OptionalTensor = std::optional<at::Tensor>;

/// q_i . sum_j k_j, with a decay [heads] of every term: [batch, heads, queries], in the accumulator
/// type.
at::Tensor key_sum_dots(const at::Tensor& q, const at::Tensor& k, Direction direction,
                        const OptionalTensor& decay) {
  const at::Tensor keys = with_heads(k, q.sym_size(1));
  if (decay.has_value()) {
    const at::ScalarType type = accum_type(q.scalar_type());
    const at::Tensor ones = at::ones_like(keys.narrow(-1, 0, 1), q.options().dtype(type));
    return call_linear_decay_product(q.to(type), keys.to(type), ones, *decay, std::nullopt,
                                     direction)
        .squeeze(-1);
  }
  if (direction != Direction::kAll) return call_linear_dot(q, keys, direction);
  const at::ScalarType accum = accum_type(q.scalar_type());
  return at::matmul(q.to(accum), at::sum(keys, {-2}, false, accum).unsqueeze(-1)).squeeze(-1);
}

/// Number of keys that each query attends to; broadcasts to [batch, heads, queries].
at::Tensor key_counts(const FeatureTerms& t, Direction direction) {
  const at::ScalarType accum = accum_type(t.q.scalar_type());
  const bool causal = direction == Direction::kCausal;
  if (t.padding.has_value())
    return causal ? t.padding->cumsum(-1) : t.padding->sum(-1, /*keepdim=*/true);
  const auto options = t.q.options().dtype(accum);
  if (causal) return at::arange(1, t.k.sym_size(2) + 1, options);
  return at::full_symint({1}, t.k.sym_size(2), options);
}

/// Normaliser: 1 / denominator.
at::Tensor normaliser(const FeatureTerms& t, double guard, Direction direction,
                      const std::optional<PreviousSums>& before) {
  const bool summed = t.norm_dots.defined();
  const OptionalTensor decay = t.query_decay();
  at::Tensor sum = summed && !t.guarded
                       ? t.norm_dots
                       : key_sum_dots(t.divisor_q(), t.divisor_k(), direction, decay);
  if (t.plus_one) sum = sum + key_counts(t, direction);
  if (before) sum = sum + before->divisor;
  if (!t.guarded) return call_linear_reciprocals(sum, std::nullopt, guard);
  at::Tensor bounds = summed ? t.norm_dots : key_sum_dots(t.norm_q, t.norm_k, direction, decay);
  if (before) bounds = bounds + before->bound;
  return call_linear_reciprocals(sum, bounds, guard);
}

/// scale_i sum_j v_j.
at::Tensor scaled_value_sums(const at::Tensor& v, const at::Tensor& scale, Direction direction) {
  if (direction == Direction::kCausal) {
    return call_linear_sum(v, std::nullopt, scale, direction);
  }
  const at::Tensor sum = at::sum(v, {-2}, /*keepdim=*/true, accum_type(v.scalar_type()));
  return (scale.unsqueeze(-1) * sum).to(v.scalar_type());
}

at::Tensor narrow_or_none(const at::Tensor& x, std::int64_t begin, std::int64_t length) {
  return x.defined() ? x.narrow(2, begin, length) : x;
}

/// Packed sequences, one after the other.
at::Tensor attend_packed(const FeatureTerms& t, const LinearAttendOptions& o, Direction direction) {
  const auto ends = read_boundaries(*o.cu_seqlens, t.q.size(2));
  std::vector<at::Tensor> results;
  for (std::size_t s = 0; s + 1 < ends.size(); ++s) {
    const std::int64_t begin = ends[s];
    const std::int64_t length = ends[s + 1] - begin;
    if (length == 0) continue;
    FeatureTerms sequence = t;
    for (at::Tensor FeatureTerms::*each : {&FeatureTerms::q, &FeatureTerms::k, &FeatureTerms::v,
                                           &FeatureTerms::norm_q, &FeatureTerms::norm_k}) {
      sequence.*each = narrow_or_none(t.*each, begin, length);
    }
    if (t.padding.has_value()) sequence.padding = t.padding->narrow(2, begin, length);
    results.push_back(attend_terms(sequence, o.guard, direction));
  }
  if (results.empty()) return t.v.new_zeros({t.q.size(0), t.q.size(1), 0, t.v.size(3)});
  return at::cat(results, 2);
}

}  // namespace

at::Tensor attend_terms(const FeatureTerms& t, double guard, Direction direction,
                        const std::optional<PreviousSums>& before, at::Tensor* scale_used) {
  const c10::SymInt heads = t.q.sym_size(1);
  const at::Tensor scale = normaliser(t, guard, direction, before);
  const at::Tensor v = with_heads(t.v, heads);
  const at::Tensor k = with_heads(t.k, heads);
  const OptionalTensor decay = t.query_decay();
  at::Tensor out = decay ? call_linear_decay_product(t.q, k, v, *decay, scale, direction)
                         : call_linear_product(t.q, k, v, scale, direction);
  if (t.plus_one) out = out + scaled_value_sums(v, scale, direction);
  if (scale_used != nullptr) *scale_used = scale;
  return out;
}

at::Tensor linear_attend(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                         const LinearAttendOptions& options) {
  check_linear_attend(q, k, v, options);
  FeatureTerms terms = make_terms(q, k, v, options, Pass::kFull);
  if (terms.norm_dots.defined())
    terms.norm_q = terms.norm_k = at::Tensor();  // large, and no longer needed
  const Direction direction = options.causal ? Direction::kCausal : Direction::kAll;
  const at::Tensor out = options.cu_seqlens ? attend_packed(terms, options, direction)
                                            : attend_terms(terms, options.guard, direction);
  return out.to(v.scalar_type());
}

}  // namespace rotary::transformer
