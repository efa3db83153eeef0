// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// Recurrent state of decoding.

#include "transformer/linear_attention/step.h"

#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>

#include <utility>

#include "transformer/linear_attention/check.h"
#include "transformer/linear_attention/decay.h"
#include "transformer/linear_attention/feature_terms.h"

namespace rotary::transformer {
namespace {

/// sum_j k_j, [batch, heads, F]; and sum_j k_j v_j^T, [batch, heads, F, E].
at::Tensor key_sum(const at::Tensor& k) {
  return at::sum(k, {-2}, false, accum_type(k.scalar_type()));
}
at::Tensor key_value_sum(const at::Tensor& k, const at::Tensor& v) {
  const at::ScalarType accum = accum_type(k.scalar_type());
  return at::matmul(k.to(accum).transpose(-2, -1), v.to(accum));
}

/// Rows of x [batch, heads, n, F] multiplied by e^(-decay_h distance_i).
at::Tensor decayed_rows(const at::Tensor& x, const at::Tensor& decay, const at::Tensor& distances) {
  return x * decay_factors(decay, distances).unsqueeze(-1);
}

/// 0 .. n - 1, for n tokens of `t`.
at::Tensor token_index(const FeatureTerms& t) {
  return at::arange(t.k.sym_size(2), t.decay->options());
}

/// With queries decayed from the token before the first.
FeatureTerms from_state(FeatureTerms t) {
  if (!t.decay) return t;
  const at::Tensor decay = *t.query_decay();
  const at::Tensor distances = token_index(t) + 1;
  t.q = decayed_rows(t.q, decay, distances);
  t.norm_q = decayed_rows(t.norm_q, decay, distances);
  return t;
}

/// With keys decayed to the last token.
FeatureTerms to_state(FeatureTerms t) {
  if (!t.decay) return t;
  const at::Tensor distances = token_index(t).flip(0);
  t.k = decayed_rows(t.k, *t.decay, distances);
  t.norm_k = decayed_rows(t.norm_k, *t.decay, distances);
  return t;
}

/// State of the tokens so far, and after those of `t`.
RecurrentState joined(const RecurrentState& before, const RecurrentState& added,
                      const FeatureTerms& t) {
  if (!t.decay) return {before.kv + added.kv, before.k + added.k};
  const at::Tensor factor = decay_factors(*t.decay, token_index(t).slice(0, -1) + 1);  // [heads, 1]
  return {before.kv * factor.unsqueeze(-1) + added.kv, before.k * factor + added.k};
}

RecurrentState recurrent_state(const FeatureTerms& t) {
  RecurrentState state;
  state.kv = key_value_sum(t.k, t.v);
  state.k = key_sum(t.divisor_k());
  if (t.guarded) state.k = at::cat({state.k, key_sum(t.norm_k)}, -1);
  if (t.plus_one) {
    const at::Tensor keys = t.padding
                                ? t.padding->sum(-1, true)
                                : at::full_symint({1, 1, 1}, t.k.sym_size(2), state.k.options());
    state.kv = at::cat({state.kv, at::sum(t.v, {-2}, true, state.kv.scalar_type())}, -2);
    state.k =
        at::cat({state.k, keys.expand_symint({state.k.sym_size(0), state.k.sym_size(1), 1})}, -1);
  }
  return state;
}

/// q [batch, heads, queries, F] times state [batch, kv_heads, F, E]; with `plus_one` the state has
/// a last row, which is added.
at::Tensor apply_state(const at::Tensor& q, const at::Tensor& state, bool plus_one) {
  const at::Tensor all = with_heads(state, q.sym_size(1));
  const c10::SymInt features = q.sym_size(3);
  const at::Tensor product =
      at::matmul(q.to(state.scalar_type()), all.narrow_symint(2, 0, features));
  return plus_one ? product + all.narrow_symint(2, features, 1) : product;
}

/// From the recurrent state: `sums` is RecurrentState::k.
PreviousSums previous_sums(const FeatureTerms& t, const at::Tensor& sums) {
  const at::Tensor column = sums.unsqueeze(-1);
  if (!t.guarded) return {apply_state(t.norm_q, column, t.plus_one).squeeze(-1), at::Tensor()};
  const c10::SymInt features = t.q.sym_size(3);
  return {apply_state(t.q, column.narrow_symint(2, 0, features), false).squeeze(-1),
          apply_state(t.norm_q, column.narrow_symint(2, features, features), false).squeeze(-1)};
}

}  // namespace

StepResult linear_attend_step(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                              const RecurrentState& state, const LinearAttendOptions& options) {
  check_linear_attend(q, k, v, options);
  check_state(q, k, v, state, options);
  const FeatureTerms t = make_terms(q, k, v, options, Pass::kStep);
  std::optional<PreviousSums> before;
  const FeatureTerms from_before = from_state(t);
  if (state.kv.defined()) before = previous_sums(from_before, state.k);
  at::Tensor scale;
  at::Tensor out = attend_terms(t, options.guard, Direction::kCausal, before, &scale);
  if (state.kv.defined()) {
    const at::Tensor sums = apply_state(from_before.q, state.kv, t.plus_one);
    out = out + (scale.unsqueeze(-1) * sums).to(out.scalar_type());
  }
  const at::NoGradGuard no_grad;
  RecurrentState after = recurrent_state(to_state(t));
  if (state.kv.defined()) after = joined(state, after, t);
  return {out.to(v.scalar_type()), after};
}

at::Tensor linear_attend(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                         LinearState& state, LinearAttendOptions options) {
  options.first = state.tokens;
  const StepResult result = linear_attend_step(q, k, v, {state.kv, state.k}, options);
  state = {result.state.kv, result.state.k, state.tokens + q.size(2)};
  return result.out;
}

}  // namespace rotary::transformer
