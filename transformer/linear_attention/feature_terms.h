// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// What both sums of linear attention are made of, whatever the variant: features of queries and
// keys, values, padding and decay.
#pragma once

#include <ATen/core/Tensor.h>

#include <optional>

#include "rotary/transformer/linear_attention.h"
#include "transformer/linear_attention/scans.h"

namespace rotary::transformer {

/// Features of numerator and denominator: with p = 1 for kCosine, else 0,
///   out_i = sum_j (p + q_i . k_j) v_j / sum_j (p + norm_q_i . norm_k_j)
/// With a decay every term of both sums is multiplied by e^(-decay |i - j|), and the 1 of kCosine
/// is one more feature.
/// Queries are [batch, heads, queries, F], keys [batch, kv_heads, keys, F].
struct FeatureTerms {
  at::Tensor q, k, v;
  at::Tensor norm_q, norm_k;  // the same as q and k, or without rotation
  at::Tensor norm_dots;       // norm_q_i . sum_j norm_k_j, where the feature map computes it
  /// [batch, 1, keys], accumulator type: 1 for a key; absent: all keys.
  std::optional<at::Tensor> padding;
  std::optional<at::Tensor> decay;  // [kv_heads], accumulator type
  bool plus_one = false;            // kCosine without decay
  bool guarded = false;  // kRotated: the sum of q_i . k_j divides, guarded by norm_q_i . norm_k_j

  /// Of queries: [heads].
  std::optional<at::Tensor> query_decay() const;
  const at::Tensor& divisor_q() const { return guarded ? q : norm_q; }
  const at::Tensor& divisor_k() const { return guarded ? k : norm_k; }
};

/// All tokens of a sequence, or those that follow a state.
enum class Pass { kFull, kStep };

FeatureTerms make_terms(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                        const LinearAttendOptions& options, Pass pass);

/// k and v with as many heads as q.
at::Tensor with_heads(const at::Tensor& x, const c10::SymInt& heads);

/// Denominator's sums over the tokens before those of `t`.
struct PreviousSums {
  at::Tensor divisor;  // [batch, heads, queries]
  at::Tensor bound;
};

/// The quotient of both sums, [batch, heads, queries, value_dim]; `scale_used`, if not null, gets
/// 1 / denominator.
at::Tensor attend_terms(const FeatureTerms& terms, double guard, Direction direction,
                        const std::optional<PreviousSums>& before = std::nullopt,
                        at::Tensor* scale_used = nullptr);

}  // namespace rotary::transformer
