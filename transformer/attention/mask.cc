// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// The attention mask: causal, sliding window, packed sequences and padding.

#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>

#include "transformer/attention/select_kernel.h"

namespace rotary::transformer {
namespace {

/// Token indices that causal masks and windows compare.
struct MaskIndices {
  at::Tensor queries{};                       // [queries, 1]: of the key with the same index
  at::Tensor keys{};                          // [keys]
  std::optional<at::Tensor> same_sequence{};  // [queries, keys]
};

at::Tensor arange_from(const c10::SymInt& first, const c10::SymInt& tokens,
                       const at::Tensor& like) {
  return at::arange(first, first + tokens, like.options().dtype(at::kLong));
}

MaskIndices dense_indices(const at::Tensor& q, const at::Tensor& k, const c10::SymInt& first) {
  return {.queries = arange_from(first, q.sym_size(2), q).unsqueeze(1),
          .keys = arange_from(0, k.sym_size(2), k)};
}

/// Of packed tokens: the sequence of each, and its index in it.
struct PackedTokens {
  PackedTokens(const at::Tensor& cu_seqlens, const c10::SymInt& tokens, const at::Tensor& like)
      : boundaries(cu_seqlens.to(like.options().dtype(at::kLong))),
        ends(boundaries.slice_symint(0, 1)) {
    const at::Tensor flat = arange_from(0, tokens, like);
    sequence = at::searchsorted(ends, flat, /*out_int32=*/false, /*right=*/true);
    index = flat - boundaries.index_select(0, sequence);
  }
  at::Tensor lengths() const {
    return ends - boundaries.slice_symint(0, 0, boundaries.sym_size(0) - 1);
  }

  at::Tensor boundaries;
  at::Tensor ends;
  at::Tensor sequence{};
  at::Tensor index{};
};

MaskIndices packed_indices(const at::Tensor& q, const at::Tensor& k, const AttendOptions& options) {
  const PackedTokens queries(*options.cu_seqlens, q.sym_size(2), q);
  if (!options.cu_seqlens_k) {
    return {.queries = queries.index.unsqueeze(1),
            .keys = queries.index,
            .same_sequence = queries.sequence.unsqueeze(1) == queries.sequence};
  }
  const PackedTokens keys(*options.cu_seqlens_k, k.sym_size(2), k);
  // The last query of a sequence is aligned with its last key.
  const at::Tensor shift = keys.lengths() - queries.lengths();
  const at::Tensor index = queries.index + shift.index_select(0, queries.sequence);
  return {.queries = index.unsqueeze(1),
          .keys = keys.index,
          .same_sequence = queries.sequence.unsqueeze(1) == keys.sequence};
}

void intersect(std::optional<at::Tensor>& visible, const at::Tensor& mask) {
  visible = visible ? at::logical_and(*visible, mask) : mask;
}

}  // namespace

std::optional<at::Tensor> make_attention_mask(const at::Tensor& q, const at::Tensor& k,
                                              const AttendOptions& options) {
  std::optional<at::Tensor> visible;
  if (options.causal || options.window || options.cu_seqlens) {
    const MaskIndices index =
        options.cu_seqlens ? packed_indices(q, k, options) : dense_indices(q, k, options.first);
    visible = index.same_sequence;
    if (options.causal) intersect(visible, index.keys <= index.queries);
    if (options.window) {
      const at::Scalar window(*options.window);
      intersect(visible, index.keys > index.queries - window);
      if (!options.causal) intersect(visible, index.keys < index.queries + window);
    }
    visible = visible->unsqueeze(0).unsqueeze(0);
  }
  if (options.padding) intersect(visible, options.padding->unsqueeze(1).unsqueeze(1));
  return visible;
}

}  // namespace rotary::transformer
