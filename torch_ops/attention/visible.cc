// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// Which keys a query sees, as a mask.

#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>

#include "attention/plan.h"

namespace rotary::torch {
namespace {

/// Where tokens stand: queries in a column, keys in a row, beside each other.
struct TokenPlaces {
  at::Tensor queries{};
  at::Tensor keys{};
  std::optional<at::Tensor> together{};  // of one sequence
};

at::Tensor count(const c10::SymInt& first, const c10::SymInt& tokens, const at::Tensor& like) {
  return at::arange(first, first + tokens, like.options().dtype(at::kLong));
}

TokenPlaces dense_places(const at::Tensor& q, const at::Tensor& k, const c10::SymInt& first) {
  return {.queries = count(first, q.sym_size(2), q).unsqueeze(1),
          .keys = count(0, k.sym_size(2), k)};
}

/// Of packed tokens: the sequence of each, and its place in it.
struct Packed {
  Packed(const at::Tensor& cu_seqlens, const c10::SymInt& tokens, const at::Tensor& like)
      : boundaries(cu_seqlens.to(like.options().dtype(at::kLong))),
        ends(boundaries.slice_symint(0, 1)) {
    const at::Tensor all = count(0, tokens, like);
    sequence = at::searchsorted(ends, all, /*out_int32=*/false, /*right=*/true);
    place = all - boundaries.index_select(0, sequence);
  }
  at::Tensor lengths() const {
    return ends - boundaries.slice_symint(0, 0, boundaries.sym_size(0) - 1);
  }

  at::Tensor boundaries;
  at::Tensor ends;
  at::Tensor sequence{};
  at::Tensor place{};
};

TokenPlaces packed_places(const at::Tensor& q, const at::Tensor& k, const AttendOptions& options) {
  const Packed queries(*options.cu_seqlens, q.sym_size(2), q);
  if (!options.cu_seqlens_k) {
    return {.queries = queries.place.unsqueeze(1),
            .keys = queries.place,
            .together = queries.sequence.unsqueeze(1) == queries.sequence};
  }
  const Packed keys(*options.cu_seqlens_k, k.sym_size(2), k);
  // The last query stands beside the last key.
  const at::Tensor ahead = keys.lengths() - queries.lengths();
  const at::Tensor place = queries.place + ahead.index_select(0, queries.sequence);
  return {.queries = place.unsqueeze(1),
          .keys = keys.place,
          .together = queries.sequence.unsqueeze(1) == keys.sequence};
}

void narrow_to(std::optional<at::Tensor>& visible, const at::Tensor& more) {
  visible = visible ? at::logical_and(*visible, more) : more;
}

}  // namespace

std::optional<at::Tensor> make_visible(const at::Tensor& q, const at::Tensor& k,
                                       const AttendOptions& options) {
  std::optional<at::Tensor> visible;
  if (options.causal || options.window || options.cu_seqlens) {
    const TokenPlaces at =
        options.cu_seqlens ? packed_places(q, k, options) : dense_places(q, k, options.first);
    visible = at.together;
    if (options.causal) narrow_to(visible, at.keys <= at.queries);
    if (options.window) {
      const at::Scalar window(*options.window);
      narrow_to(visible, at.keys > at.queries - window);
      if (!options.causal) narrow_to(visible, at.keys < at.queries + window);
    }
    visible = visible->unsqueeze(0).unsqueeze(0);
  }
  if (options.padding) narrow_to(visible, options.padding->unsqueeze(1).unsqueeze(1));
  return visible;
}

}  // namespace rotary::torch
