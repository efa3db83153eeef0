// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// Linear attention: the features of numerator and denominator, and the scans over them. Everything
// is composed of differentiable operators.

#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>

#include <vector>

#include "pytorch/rope_cache.h"
#include "pytorch/rotation_op.h"
#include "rotary/transformer/linear_attention.h"
#include "transformer/linear_attention/check.h"
#include "transformer/linear_attention/favor.h"
#include "transformer/linear_attention/features.h"
#include "transformer/linear_attention/rowwise.h"
#include "transformer/linear_attention/scans.h"
#include "transformer/linear_attention/step.h"

namespace rotary::transformer {
namespace {

using OptionalTensor = std::optional<at::Tensor>;

/// Features of numerator and denominator: with p = 1 for kCosine, else 0,
///   out_i = sum_j (p + q_i . k_j) v_j / sum_j (p + norm_q_i . norm_k_j)
/// Queries are [batch, heads, queries, F], keys [batch, kv_heads, keys, F].
struct FeatureTerms {
  at::Tensor q, k, v;
  at::Tensor norm_q, norm_k;  // the same as q and k, or without rotation
  at::Tensor norm_dots;       // norm_q_i . sum_j norm_k_j, where the feature map computes it
  OptionalTensor padding;     // [batch, 1, keys], accumulator type: 1 for a key; absent: all keys
  bool plus_one = false;      // kCosine
  bool guarded = false;  // kRotated: the sum of q_i . k_j divides, guarded by norm_q_i . norm_k_j

  const at::Tensor& divisor_q() const { return guarded ? q : norm_q; }
  const at::Tensor& divisor_k() const { return guarded ? k : norm_k; }
};

/// k and v with as many heads as q.
at::Tensor with_heads(const at::Tensor& x, const c10::SymInt& heads) {
  if (x.sym_size(1) == heads) return x;
  return at::repeat_interleave_symint(x, heads / x.sym_size(1), 1);
}

std::vector<at::Tensor> rotate_by_rope(const LinearAttendOptions& o, at::TensorList tensors,
                                       const OptionalTensor& positions) {
  const torch::TokenPositions token_positions{
      .positions = positions, .cu_seqlens = o.cu_seqlens, .first = o.first, .token_dim = -2};
  if (o.frequencies.has_value()) {
    return torch::call_learned("rotate", tensors, o.rope, *o.frequencies, o.scale, token_positions);
  }
  return torch::call(torch::RotationOp::kRotate, tensors, o.rope, token_positions);
}

/// R q and R k, in one launch where their positions are the same.
std::pair<at::Tensor, at::Tensor> rotate_qk(const LinearAttendOptions& o, const at::Tensor& q,
                                            const at::Tensor& k) {
  if (o.rope.empty()) return {q, k};
  if (!o.key_positions.has_value() && q.sym_size(2) == k.sym_size(2)) {
    const auto both = rotate_by_rope(o, {q, k}, o.positions);
    return {both[0], both[1]};
  }
  return {rotate_by_rope(o, {q}, o.positions)[0], rotate_by_rope(o, {k}, o.key_positions)[0]};
}

enum class Pass { kFull, kStep };

/// cos and sin at the positions of q, for call_favor(): R (1, 0) of every pair.
at::Tensor cos_sin_table(const LinearAttendOptions& o, const at::Tensor& q, bool interleaved) {
  const c10::SymInt pairs = o.projection->sym_size(0) / 2;
  const at::Tensor ones =
      at::ones_symint({1, 1, q.sym_size(2), pairs}, q.options().dtype(at::kFloat));
  const at::Tensor zeros = at::zeros_like(ones);
  const at::Tensor x =
      interleaved ? at::stack({ones, zeros}, -1).flatten(-2) : at::cat({ones, zeros}, -1);
  const at::Tensor rotated = rotate_by_rope(o, {x}, o.positions)[0].select(0, 0).select(0, 0);
  return interleaved ? rotated.unflatten_symint(-1, {pairs, 2})
                     : rotated.unflatten_symint(-1, {2, pairs}).transpose(-2, -1);
}

/// Interleaves the two halves of the rows: features paired by halves become adjacent pairs. Dot
/// products of features do not depend on their order.
at::Tensor interleave_halves(const at::Tensor& projection) {
  return projection.unflatten_symint(0, {2, projection.sym_size(0) / 2})
      .transpose(0, 1)
      .flatten(0, 1);
}

/// FAVOR+ by one operator, which rotates features itself where it can: then q and k are set too.
void map_by_favor(FeatureTerms& t, const at::Tensor& q, const at::Tensor& k,
                  const LinearAttendOptions& o) {
  OptionalTensor cos_sin;
  at::Tensor projection = *o.projection;
  if (o.variant != LinearVariant::kBefore && !o.rope.empty() && favor_can_rotate(q, o)) {
    const bool interleaved = torch::find_rope(o.rope)->layout().pairing == Pairing::kInterleaved;
    cos_sin = cos_sin_table(o, q, interleaved);
    if (!interleaved) projection = interleave_halves(projection);
  }
  const at::Tensor keys = with_heads(k, q.sym_size(1));
  const FavorFeatures favor = call_favor({q, keys, projection, o.padding, cos_sin});
  t.norm_dots = favor.dots;
  t.norm_q = favor.queries;
  t.norm_k = favor.keys;
  if (!cos_sin.has_value()) return;
  t.q = favor.queries;
  t.k = favor.keys;
}

/// norm_q = phi(q) and norm_k = phi(k), and norm_dots where one operator computes all three.
void map_features(FeatureTerms& t, const at::Tensor& q, const at::Tensor& k,
                  const LinearAttendOptions& o, Pass pass) {
  if (o.feature_map == FeatureMap::kFavor && o.causal && !o.cu_seqlens.has_value() &&
      pass == Pass::kFull && !o.projection->requires_grad()) {
    return map_by_favor(t, q, k, o);
  }
  t.norm_q = feature_map(q, Side::kQuery, o);
  t.norm_k = feature_map(k, Side::kKey, o);
  if (o.padding.has_value())
    t.norm_k = at::where(o.padding->unsqueeze(1).unsqueeze(-1), t.norm_k, 0);
}

FeatureTerms make_terms(const at::Tensor& q, const at::Tensor& all_keys, const at::Tensor& v,
                        const LinearAttendOptions& o, Pass pass) {
  FeatureTerms t;
  OptionalTensor is_key;  // [batch, 1, keys, 1], bool
  if (o.padding.has_value()) {
    is_key = o.padding->unsqueeze(1).unsqueeze(-1);
    t.padding = o.padding->unsqueeze(1).to(accum_type(q.scalar_type()));
  }
  const auto masked = [&](const at::Tensor& x) { return is_key ? at::where(*is_key, x, 0) : x; };
  const at::Tensor k = masked(all_keys);  // padding must not enter FAVOR+'s stabiliser
  t.v = masked(v);
  switch (o.variant) {
    case LinearVariant::kCosine: {
      const auto [rq, rk] = rotate_qk(o, q, k);
      t.q = t.norm_q = call_unit_vectors(rq);
      t.k = t.norm_k = masked(call_unit_vectors(rk));
      t.plus_one = true;
      break;
    }
    case LinearVariant::kBefore: {
      const auto [rq, rk] = rotate_qk(o, q, k);
      map_features(t, rq, rk, o, pass);
      t.q = t.norm_q;
      t.k = t.norm_k;
      break;
    }
    case LinearVariant::kNumerator:
    case LinearVariant::kRotated:
      map_features(t, q, k, o, pass);
      if (!t.q.defined()) std::tie(t.q, t.k) = rotate_qk(o, t.norm_q, t.norm_k);
      t.guarded = o.variant == LinearVariant::kRotated;
      break;
  }
  t.v = t.v.to(t.q.scalar_type());
  return t;
}

/// q_i . sum_j k_j: [batch, heads, queries], in the accumulator type.
at::Tensor key_sum_dots(const at::Tensor& q, const at::Tensor& k, Direction direction) {
  const at::Tensor keys = with_heads(k, q.sym_size(1));
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

/// Denominator's sums over the tokens before those of `t`.
struct PreviousSums {
  at::Tensor divisor;  // [batch, heads, queries]
  at::Tensor bound;
};

/// Normaliser: 1 / denominator.
at::Tensor normaliser(const FeatureTerms& t, double guard, Direction direction,
                      const std::optional<PreviousSums>& before) {
  const bool summed = t.norm_dots.defined();
  at::Tensor sum =
      summed && !t.guarded ? t.norm_dots : key_sum_dots(t.divisor_q(), t.divisor_k(), direction);
  if (t.plus_one) sum = sum + key_counts(t, direction);
  if (before) sum = sum + before->divisor;
  if (!t.guarded) return call_linear_reciprocals(sum, std::nullopt, guard);
  at::Tensor bounds = summed ? t.norm_dots : key_sum_dots(t.norm_q, t.norm_k, direction);
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

at::Tensor attend_terms(const FeatureTerms& t, double guard, Direction direction,
                        const std::optional<PreviousSums>& before = std::nullopt,
                        at::Tensor* scale_used = nullptr) {
  const c10::SymInt heads = t.q.sym_size(1);
  const at::Tensor scale = normaliser(t, guard, direction, before);
  const at::Tensor v = with_heads(t.v, heads);
  at::Tensor out = call_linear_product(t.q, with_heads(t.k, heads), v, scale, direction);
  if (t.plus_one) out = out + scaled_value_sums(v, scale, direction);
  if (scale_used != nullptr) *scale_used = scale;
  return out;
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

// ---- Recurrent state of decoding ----------------------------------------------------------------

/// sum_j k_j, [batch, heads, F]; and sum_j k_j v_j^T, [batch, heads, F, E].
at::Tensor key_sum(const at::Tensor& k) {
  return at::sum(k, {-2}, false, accum_type(k.scalar_type()));
}
at::Tensor key_value_sum(const at::Tensor& k, const at::Tensor& v) {
  const at::ScalarType accum = accum_type(k.scalar_type());
  return at::matmul(k.to(accum).transpose(-2, -1), v.to(accum));
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

StepResult linear_attend_step(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                              const RecurrentState& state, const LinearAttendOptions& options) {
  check_linear_attend(q, k, v, options);
  check_state(q, k, v, state, options);
  const FeatureTerms t = make_terms(q, k, v, options, Pass::kStep);
  std::optional<PreviousSums> before;
  if (state.kv.defined()) before = previous_sums(t, state.k);
  at::Tensor scale;
  at::Tensor out = attend_terms(t, options.guard, Direction::kCausal, before, &scale);
  if (state.kv.defined()) {
    out =
        out + (scale.unsqueeze(-1) * apply_state(t.q, state.kv, t.plus_one)).to(out.scalar_type());
  }
  const at::NoGradGuard no_grad;
  RecurrentState after = recurrent_state(t);
  if (state.kv.defined()) after = {state.kv + after.kv, state.k + after.k};
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
