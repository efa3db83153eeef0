// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// Linear attention: which features make the numerator and which the denominator, and the sums over
// them. Everything here is made of differentiable operators.

#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>

#include <vector>

#include "linear_attention/check.h"
#include "linear_attention/favor.h"
#include "linear_attention/features.h"
#include "linear_attention/rows.h"
#include "linear_attention/step.h"
#include "linear_attention/sums.h"
#include "rotary/torch_linear_attention.h"
#include "rotation/rope_cache.h"
#include "rotation/turn.h"

namespace rotary::torch {
namespace {

using OptionalTensor = std::optional<at::Tensor>;

/// What linear attention sums: with w_ij = one + a_i . b_j and u_ij = one + c_i . e_j
///   out_i = sum_j w_ij v_j / sum_j u_ij
/// Queries a, c are [batch, heads, queries, F]; keys b, e [batch, heads, keys, F].
struct Terms {
  at::Tensor a, b, v;
  at::Tensor c, e;       // the same as a and b, or without rotation
  at::Tensor dots;       // c_i . sum_j e_j, where the map has summed it
  OptionalTensor seen;   // [batch, 1, keys], wide: 1 where there is a key; absent: everywhere
  bool one = false;      // kCosine
  bool guarded = false;  // kRotated: the sum of a_i . b_j divides, guarded by that of c_i . e_j

  const at::Tensor& divides_a() const { return guarded ? a : c; }
  const at::Tensor& divides_b() const { return guarded ? b : e; }
};

/// k and v with as many heads as q.
at::Tensor with_heads(const at::Tensor& x, const c10::SymInt& heads) {
  if (x.sym_size(1) == heads) return x;
  return at::repeat_interleave_symint(x, heads / x.sym_size(1), 1);
}

std::vector<at::Tensor> turned(const LinearAttendOptions& o, at::TensorList tensors,
                               const OptionalTensor& positions) {
  const Where where{
      .positions = positions, .cu_seqlens = o.cu_seqlens, .first = o.first, .token_dim = -2};
  if (o.frequencies.has_value()) {
    return call_learned("rotate", tensors, o.rope, *o.frequencies, o.scale, where);
  }
  return call(Turn::kRotate, tensors, o.rope, where);
}

/// R q and R k, in one launch where both stand at the same places.
std::pair<at::Tensor, at::Tensor> turn(const LinearAttendOptions& o, const at::Tensor& q,
                                       const at::Tensor& k) {
  if (o.rope.empty()) return {q, k};
  if (!o.key_positions.has_value() && q.sym_size(2) == k.sym_size(2)) {
    const auto both = turned(o, {q, k}, o.positions);
    return {both[0], both[1]};
  }
  return {turned(o, {q}, o.positions)[0], turned(o, {k}, o.key_positions)[0]};
}

enum class Purpose { kWhole, kState };

/// cos and sin of the rope where the tokens of q stand: R (1, 0) of every pair, as Favor takes it.
at::Tensor table_of(const LinearAttendOptions& o, const at::Tensor& q, bool interleaved) {
  const c10::SymInt pairs = o.projection->sym_size(0) / 2;
  const at::Tensor one =
      at::ones_symint({1, 1, q.sym_size(2), pairs}, q.options().dtype(at::kFloat));
  const at::Tensor zero = at::zeros_like(one);
  const at::Tensor x =
      interleaved ? at::stack({one, zero}, -1).flatten(-2) : at::cat({one, zero}, -1);
  const at::Tensor z = turned(o, {x}, o.positions)[0].select(0, 0).select(0, 0);
  return interleaved ? z.unflatten_symint(-1, {pairs, 2})
                     : z.unflatten_symint(-1, {2, pairs}).transpose(-2, -1);
}

/// Rows i and i + half of them side by side: features whose halves would be turned as pairs are
/// then turned as neighbours. Products of features know no order.
at::Tensor halves_as_neighbours(const at::Tensor& projection) {
  return projection.unflatten_symint(0, {2, projection.sym_size(0) / 2})
      .transpose(0, 1)
      .flatten(0, 1);
}

/// FAVOR+ by one operator, which turns features itself where it can: then a and b are there too.
void map_by_favor(Terms& t, const at::Tensor& q, const at::Tensor& k,
                  const LinearAttendOptions& o) {
  OptionalTensor table;
  at::Tensor projection = *o.projection;
  if (o.variant != LinearVariant::kBefore && !o.rope.empty() && favor_turns(q, o)) {
    const bool interleaved = find_rope(o.rope)->layout().pairing == Pairing::kInterleaved;
    table = table_of(o, q, interleaved);
    if (!interleaved) projection = halves_as_neighbours(projection);
  }
  const at::Tensor keys = with_heads(k, q.sym_size(1));
  const Favor favor = call_favor({q, keys, projection, o.padding, table});
  t.dots = favor.dots;
  t.c = favor.queries;
  t.e = favor.keys;
  if (!table.has_value()) return;
  t.a = favor.queries;
  t.b = favor.keys;
}

/// c = phi(q) and e = phi(k), and dots where one operator has all three.
void map_features(Terms& t, const at::Tensor& q, const at::Tensor& k, const LinearAttendOptions& o,
                  Purpose purpose) {
  if (o.feature_map == FeatureMap::kFavor && o.causal && !o.cu_seqlens.has_value() &&
      purpose == Purpose::kWhole && !o.projection->requires_grad()) {
    return map_by_favor(t, q, k, o);
  }
  t.c = feature_map(q, Side::kQuery, o);
  t.e = feature_map(k, Side::kKey, o);
  if (o.padding.has_value()) t.e = at::where(o.padding->unsqueeze(1).unsqueeze(-1), t.e, 0);
}

Terms make_terms(const at::Tensor& q, const at::Tensor& all_keys, const at::Tensor& v,
                 const LinearAttendOptions& o, Purpose purpose) {
  Terms t;
  OptionalTensor sees;  // [batch, 1, keys, 1]
  if (o.padding.has_value()) {
    sees = o.padding->unsqueeze(1).unsqueeze(-1);
    t.seen = o.padding->unsqueeze(1).to(wide_type(q.scalar_type()));
  }
  const auto masked = [&](const at::Tensor& x) { return sees ? at::where(*sees, x, 0) : x; };
  const at::Tensor k = masked(all_keys);  // what is no token has no part in FAVOR+'s stabiliser
  t.v = masked(v);
  switch (o.variant) {
    case LinearVariant::kCosine: {
      const auto [rq, rk] = turn(o, q, k);
      t.a = t.c = call_unit_vectors(rq);
      t.b = t.e = masked(call_unit_vectors(rk));
      t.one = true;
      break;
    }
    case LinearVariant::kBefore: {
      const auto [rq, rk] = turn(o, q, k);
      map_features(t, rq, rk, o, purpose);
      t.a = t.c;
      t.b = t.e;
      break;
    }
    case LinearVariant::kNumerator:
    case LinearVariant::kRotated:
      map_features(t, q, k, o, purpose);
      if (!t.a.defined()) std::tie(t.a, t.b) = turn(o, t.c, t.e);
      t.guarded = o.variant == LinearVariant::kRotated;
      break;
  }
  t.v = t.v.to(t.a.scalar_type());
  return t;
}

/// q . sum k, over the keys of `direction`: [batch, heads, queries], wide.
at::Tensor dots(const at::Tensor& q, const at::Tensor& k, Direction direction) {
  const at::Tensor keys = with_heads(k, q.sym_size(1));
  if (direction != Direction::kAll) return call_linear_dot(q, keys, direction);
  const at::ScalarType wide = wide_type(q.scalar_type());
  return at::matmul(q.to(wide), at::sum(keys, {-2}, false, wide).unsqueeze(-1)).squeeze(-1);
}

/// How many keys each query sees: what broadcasts to [batch, heads, queries].
at::Tensor counts(const Terms& t, Direction direction) {
  const at::ScalarType wide = wide_type(t.a.scalar_type());
  const bool causal = direction == Direction::kCausal;
  if (t.seen.has_value()) return causal ? t.seen->cumsum(-1) : t.seen->sum(-1, /*keepdim=*/true);
  const auto options = t.a.options().dtype(wide);
  if (causal) return at::arange(1, t.b.sym_size(2) + 1, options);
  return at::full_symint({1}, t.b.sym_size(2), options);
}

/// What the sum of weights was before the tokens of `t`.
struct Before {
  at::Tensor divides;  // [batch, heads, queries]
  at::Tensor guard;
};

/// 1 / the denominator.
at::Tensor reciprocals(const Terms& t, double guard, Direction direction,
                       const std::optional<Before>& before) {
  const bool summed = t.dots.defined();
  at::Tensor sum = summed && !t.guarded ? t.dots : dots(t.divides_a(), t.divides_b(), direction);
  if (t.one) sum = sum + counts(t, direction);
  if (before) sum = sum + before->divides;
  if (!t.guarded) return call_linear_reciprocals(sum, std::nullopt, guard);
  at::Tensor bounds = summed ? t.dots : dots(t.c, t.e, direction);
  if (before) bounds = bounds + before->guard;
  return call_linear_reciprocals(sum, bounds, guard);
}

/// scale_i sum_j v_j.
at::Tensor value_sums(const at::Tensor& v, const at::Tensor& scale, Direction direction) {
  if (direction == Direction::kCausal) {
    return call_linear_sum(v, std::nullopt, scale, direction);
  }
  const at::Tensor sum = at::sum(v, {-2}, /*keepdim=*/true, wide_type(v.scalar_type()));
  return (scale.unsqueeze(-1) * sum).to(v.scalar_type());
}

at::Tensor run(const Terms& t, double guard, Direction direction,
               const std::optional<Before>& before = std::nullopt,
               at::Tensor* scale_used = nullptr) {
  const c10::SymInt heads = t.a.sym_size(1);
  const at::Tensor scale = reciprocals(t, guard, direction, before);
  const at::Tensor v = with_heads(t.v, heads);
  at::Tensor out = call_linear_product(t.a, with_heads(t.b, heads), v, scale, direction);
  if (t.one) out = out + value_sums(v, scale, direction);
  if (scale_used != nullptr) *scale_used = scale;
  return out;
}

at::Tensor narrow_or_none(const at::Tensor& x, std::int64_t begin, std::int64_t length) {
  return x.defined() ? x.narrow(2, begin, length) : x;
}

/// Sequence by sequence.
at::Tensor run_packed(const Terms& t, const LinearAttendOptions& o, Direction direction) {
  const auto ends = read_boundaries(*o.cu_seqlens, t.a.size(2));
  std::vector<at::Tensor> results;
  for (std::size_t s = 0; s + 1 < ends.size(); ++s) {
    const std::int64_t begin = ends[s];
    const std::int64_t length = ends[s + 1] - begin;
    if (length == 0) continue;
    Terms one = t;
    for (at::Tensor Terms::*each : {&Terms::a, &Terms::b, &Terms::v, &Terms::c, &Terms::e}) {
      one.*each = narrow_or_none(t.*each, begin, length);
    }
    if (t.seen.has_value()) one.seen = t.seen->narrow(2, begin, length);
    results.push_back(run(one, o.guard, direction));
  }
  if (results.empty()) return t.v.new_zeros({t.a.size(0), t.a.size(1), 0, t.v.size(3)});
  return at::cat(results, 2);
}

// ---- The state of decoding ----------------------------------------------------------------------

/// sum_j k_j, [batch, heads, F]; and sum_j k_j v_j^T, [batch, heads, F, E].
at::Tensor key_sum(const at::Tensor& k) {
  return at::sum(k, {-2}, false, wide_type(k.scalar_type()));
}
at::Tensor key_value_sum(const at::Tensor& k, const at::Tensor& v) {
  const at::ScalarType wide = wide_type(k.scalar_type());
  return at::matmul(k.to(wide).transpose(-2, -1), v.to(wide));
}

Sums sums_of(const Terms& t) {
  Sums s;
  s.kv = key_value_sum(t.b, t.v);
  s.k = key_sum(t.divides_b());
  if (t.guarded) s.k = at::cat({s.k, key_sum(t.e)}, -1);
  if (t.one) {
    const at::Tensor sees =
        t.seen ? t.seen->sum(-1, true) : at::full_symint({1, 1, 1}, t.b.sym_size(2), s.k.options());
    s.kv = at::cat({s.kv, at::sum(t.v, {-2}, true, s.kv.scalar_type())}, -2);
    s.k = at::cat({s.k, sees.expand_symint({s.k.sym_size(0), s.k.sym_size(1), 1})}, -1);
  }
  return s;
}

/// q [batch, heads, queries, F] times state [batch, kv_heads, F or F + 1, E]; a last row is added.
at::Tensor apply_state(const at::Tensor& q, const at::Tensor& state, bool one) {
  const at::Tensor all = with_heads(state, q.sym_size(1));
  const c10::SymInt features = q.sym_size(3);
  const at::Tensor product =
      at::matmul(q.to(state.scalar_type()), all.narrow_symint(2, 0, features));
  return one ? product + all.narrow_symint(2, features, 1) : product;
}

/// The denominators' part of the tokens before: `sums` are those of Sums::k.
Before before_of(const Terms& t, const at::Tensor& sums) {
  const at::Tensor column = sums.unsqueeze(-1);
  if (!t.guarded) return {apply_state(t.c, column, t.one).squeeze(-1), at::Tensor()};
  const c10::SymInt features = t.a.sym_size(3);
  return {apply_state(t.a, column.narrow_symint(2, 0, features), false).squeeze(-1),
          apply_state(t.c, column.narrow_symint(2, features, features), false).squeeze(-1)};
}

}  // namespace

at::Tensor linear_attend(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                         const LinearAttendOptions& options) {
  check_linear_attend(q, k, v, options);
  Terms terms = make_terms(q, k, v, options, Purpose::kWhole);
  if (terms.dots.defined()) terms.c = terms.e = at::Tensor();  // large, and not needed any more
  const Direction direction = options.causal ? Direction::kCausal : Direction::kAll;
  const at::Tensor out = options.cu_seqlens ? run_packed(terms, options, direction)
                                            : run(terms, options.guard, direction);
  return out.to(v.scalar_type());
}

Stepped linear_attend_step(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                           const Sums& sums, const LinearAttendOptions& options) {
  check_linear_attend(q, k, v, options);
  check_sums(q, k, v, sums, options);
  const Terms t = make_terms(q, k, v, options, Purpose::kState);
  std::optional<Before> before;
  if (sums.kv.defined()) before = before_of(t, sums.k);
  at::Tensor scale;
  at::Tensor out = run(t, options.guard, Direction::kCausal, before, &scale);
  if (sums.kv.defined()) {
    out = out + (scale.unsqueeze(-1) * apply_state(t.a, sums.kv, t.one)).to(out.scalar_type());
  }
  const at::NoGradGuard no_grad;
  Sums after = sums_of(t);
  if (sums.kv.defined()) after = {sums.kv + after.kv, sums.k + after.k};
  return {out.to(v.scalar_type()), after};
}

at::Tensor linear_attend(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                         LinearState& state, LinearAttendOptions options) {
  options.first = state.tokens;
  const Stepped stepped = linear_attend_step(q, k, v, {state.kv, state.k}, options);
  state = {stepped.sums.kv, stepped.sums.k, state.tokens + q.size(2)};
  return stepped.out;
}

}  // namespace rotary::torch
