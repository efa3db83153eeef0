// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

#include "transformer/linear_attention/feature_terms.h"

#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>

#include <tuple>
#include <utility>
#include <vector>

#include "pytorch/rope_cache.h"
#include "pytorch/rotation_op.h"
#include "transformer/linear_attention/favor.h"
#include "transformer/linear_attention/features.h"
#include "transformer/linear_attention/rowwise.h"

namespace rotary::transformer {
namespace {

using OptionalTensor = std::optional<at::Tensor>;

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
      !o.decay.has_value() && pass == Pass::kFull && !o.projection->requires_grad()) {
    return map_by_favor(t, q, k, o);
  }
  t.norm_q = feature_map(q, Side::kQuery, o);
  t.norm_k = feature_map(k, Side::kKey, o);
  if (o.padding.has_value())
    t.norm_k = at::where(o.padding->unsqueeze(1).unsqueeze(-1), t.norm_k, 0);
}

/// kCosine with a decay: its 1 as one more feature of queries and keys, 0 for padding.
void append_one(FeatureTerms& t) {
  const auto with = [](const at::Tensor& x, const at::Tensor& column) {
    c10::SymDimVector sizes(x.sym_sizes());
    sizes.back() = 1;
    return at::cat({x, column.expand_symint(sizes).to(x.scalar_type())}, -1);
  };
  const at::Tensor one = at::ones({1, 1, 1, 1}, t.q.options());
  t.q = t.norm_q = with(t.q, one);
  t.k = t.norm_k = with(t.k, t.padding ? t.padding->unsqueeze(-1) : one);
  t.plus_one = false;
}

}  // namespace

std::optional<at::Tensor> FeatureTerms::query_decay() const {
  if (!decay || decay->sym_size(0) == q.sym_size(1)) return decay;
  return at::repeat_interleave_symint(*decay, q.sym_size(1) / decay->sym_size(0), 0);
}

at::Tensor with_heads(const at::Tensor& x, const c10::SymInt& heads) {
  if (x.sym_size(1) == heads) return x;
  return at::repeat_interleave_symint(x, heads / x.sym_size(1), 1);
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
  if (o.decay.has_value()) {
    t.decay = o.decay->to(accum_type(q.scalar_type()));
    if (t.plus_one) append_one(t);
  }
  t.v = t.v.to(t.q.scalar_type());
  return t;
}

}  // namespace rotary::transformer
