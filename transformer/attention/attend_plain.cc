// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

#include "transformer/attention/attend_plain.h"

#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>

#include <cmath>
#include <limits>

#include "transformer/attention/select_kernel.h"

namespace rotary::transformer {
namespace {

/// Grouped-query attention: each head as often as queries use it.
at::Tensor for_heads_of(const at::Tensor& q, const at::Tensor& x) {
  const c10::SymInt times = q.sym_size(1) / x.sym_size(1);
  if (times == 1) return x;
  return x.unsqueeze(2)
      .expand_symint({x.sym_size(0), x.sym_size(1), times, x.sym_size(2), x.sym_size(3)})
      .flatten(1, 2);
}

/// 1 / sqrt(head_dim) by default.
double scale_of(const at::Tensor& q, const AttendOptions& options) {
  return options.scale.value_or(
      1.0 / std::sqrt(static_cast<double>(q.sym_size(3).guard_int(__FILE__, __LINE__))));
}

}  // namespace

at::Tensor attend_plain(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                        const AttendOptions& options) {
  at::Tensor scores = at::matmul(q * scale_of(q, options), for_heads_of(q, k).transpose(-2, -1));
  if (options.bias) scores = scores + options.bias->to(scores.scalar_type());
  std::optional<at::Tensor> visible = make_attention_mask(q, k, options);
  if (visible) {
    scores = at::where(*visible, scores, -std::numeric_limits<double>::infinity());
  }
  // Of 16-bit types in float32. A query that sees no key has NaNs here and zeros below.
  const bool narrow = scores.scalar_type() == at::kHalf || scores.scalar_type() == at::kBFloat16;
  at::Tensor weights =
      at::softmax(scores, -1, narrow ? at::kFloat : scores.scalar_type()).to(q.scalar_type());
  if (visible && !every_query_sees_a_key(q, k, options)) {
    weights = at::where(*visible, weights, 0.0);
  }
  if (options.dropout > 0.0) weights = at::dropout(weights, options.dropout, /*train=*/true);
  return at::matmul(weights, for_heads_of(q, v)) +
         shaw_outputs(weights, *options.value_vectors, options.first);
}

void add_content(EncodingImpl& encoding, const at::Tensor& q, const at::Tensor& k,
                 AttendOptions& options) {
  if (const auto bias = encoding.content_bias(q, k, options.first)) {
    const at::Tensor scaled = *bias * scale_of(q, options);
    options.bias = options.bias ? *options.bias + scaled : scaled;
  }
  options.value_vectors = encoding.value_vectors(q);
}

}  // namespace rotary::transformer
