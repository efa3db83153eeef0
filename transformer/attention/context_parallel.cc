// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// Context parallelism: attention over a sequence sharded across ranks. Keys and values are
// gathered, as in the training of Llama 3 (Dubey et al. 2024, 3.3.2): with grouped-query attention
// they are small, any mask works, and the kernels are those of one rank.

#include <ATen/Functions.h>
#include <torch/library.h>

#include <utility>
#include <vector>

#include "rotary/transformer/attention.h"
#include "transformer/attention/collectives.h"

namespace rotary::transformer {
namespace {

void check_context_parallel(std::string_view function, const ContextParallel& parallel) {
  TORCH_CHECK_VALUE(parallel.ranks > 0 && parallel.rank >= 0 && parallel.rank < parallel.ranks, "[",
                    function, "] rank must be from 0 to ranks - 1, got rank ", parallel.rank,
                    " of ", parallel.ranks);
}

/// Contiguous tokens of the whole sequence that a rank holds.
struct Chunk {
  c10::SymInt begin;
  c10::SymInt tokens;
};
std::vector<Chunk> chunks_of(std::string_view function, const c10::SymInt& tokens,
                             const ContextParallel& parallel, std::int64_t rank) {
  const bool zigzag = parallel.shard == Shard::kZigZag;
  const std::int64_t parts = zigzag ? 2 * parallel.ranks : parallel.ranks;
  TORCH_CHECK_VALUE(tokens % parts == 0, "[", function, "] tokens must be a multiple of ",
                    zigzag ? "2 x ranks, " : "ranks, ", parts, ", got ", tokens);
  const c10::SymInt size = tokens / parts;
  std::vector<Chunk> chunks = {{size * rank, size}};
  if (zigzag) chunks.push_back({size * (parts - 1 - rank), size});
  return chunks;
}

at::Tensor cat_if_several(const std::vector<at::Tensor>& parts, std::int64_t dim) {
  return parts.size() == 1 ? parts[0] : at::cat(parts, dim);
}

}  // namespace

at::Tensor shard_positions(c10::SymInt tokens, const ContextParallel& parallel,
                           const at::Tensor& like) {
  check_context_parallel("shard_positions", parallel);
  std::vector<at::Tensor> parts;
  for (const Chunk& c : chunks_of("shard_positions", tokens, parallel, parallel.rank)) {
    parts.push_back(at::arange(c.begin, c.begin + c.tokens, like.options().dtype(at::kLong)));
  }
  return cat_if_several(parts, 0);
}

at::Tensor shard_tokens(const at::Tensor& x, std::int64_t dim, const ContextParallel& parallel) {
  check_context_parallel("shard_tokens", parallel);
  std::vector<at::Tensor> parts;
  for (const Chunk& c : chunks_of("shard_tokens", x.sym_size(dim), parallel, parallel.rank)) {
    parts.push_back(x.narrow_symint(dim, c.begin, c.tokens));
  }
  return cat_if_several(parts, dim);
}

at::Tensor gather_tokens(const at::Tensor& x, std::int64_t dim, const ContextParallel& parallel) {
  check_context_parallel("gather_tokens", parallel);
  const bool is_bool = x.scalar_type() == at::kBool;
  at::Tensor mine = x.movedim(dim, 0);
  if (is_bool) mine = mine.to(at::kByte);
  at::Tensor all = parallel.ranks == 1
                       ? mine
                       : call_all_gather(mine.contiguous(), parallel.group, parallel.ranks);
  if (parallel.shard == Shard::kZigZag) {
    // Gathered chunks are r, 2 x ranks - 1 - r for each rank r: put them in order.
    const c10::SymInt tokens = all.sym_size(0);
    const c10::SymInt size = chunks_of("gather_tokens", tokens, parallel, 0)[0].tokens;
    std::vector<at::Tensor> parts;
    for (std::int64_t r = 0; r < parallel.ranks; ++r) {
      parts.push_back(all.narrow_symint(0, size * (2 * r), size));
    }
    for (std::int64_t r = parallel.ranks - 1; r >= 0; --r) {
      parts.push_back(all.narrow_symint(0, size * (2 * r + 1), size));
    }
    all = at::cat(parts, 0);
  }
  if (is_bool) all = all.to(at::kBool);
  return all.movedim(0, dim);
}

at::Tensor attend_across(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                         const ContextParallel& parallel, const AttendOptions& options) {
  check_context_parallel("attend_across", parallel);
  TORCH_CHECK_VALUE(!options.cu_seqlens && !options.cu_seqlens_k && options.first == 0,
                    "[attend_across] first and packed sequences are not supported across ranks");
  TORCH_CHECK_VALUE(q.dim() == 4 && k.dim() == 4 && v.dim() == 4 &&
                        q.sym_size(2) == k.sym_size(2) && k.sym_size(2) == v.sym_size(2),
                    "[attend_across] q, k and v must be [batch, heads, tokens, head_dim] with the "
                    "same tokens, got ",
                    q.sym_sizes(), ", ", k.sym_sizes(), " and ", v.sym_sizes());
  // One collective for both.
  const at::Tensor all = gather_tokens(at::cat({k, v}, -1), 2, parallel);
  const at::Tensor keys = all.narrow_symint(-1, 0, k.sym_size(3));
  const at::Tensor values = all.narrow_symint(-1, k.sym_size(3), v.sym_size(3));
  AttendOptions every = options;
  if (options.padding) every.padding = gather_tokens(*options.padding, 1, parallel);
  if (!options.causal && !options.window) return attend(q, keys, values, every);
  // Queries of a chunk are contiguous: each chunk has a causal mask or window that fused kernels
  // have.
  std::vector<at::Tensor> results;
  c10::SymInt begin = 0;
  for (const Chunk& c : chunks_of("attend_across", keys.sym_size(2), parallel, parallel.rank)) {
    every.first = c.begin;
    if (options.bias) every.bias = options.bias->narrow_symint(-2, begin, c.tokens);
    results.push_back(attend(q.narrow_symint(2, begin, c.tokens), keys, values, every));
    begin = begin + c.tokens;
  }
  return cat_if_several(results, 2);
}

namespace {

using OptionalTensor = std::optional<at::Tensor>;

Shard shard_of(std::string_view name) {
  TORCH_CHECK_VALUE(name == "zigzag" || name == "contiguous",
                    "[context_parallel] shard must be zigzag or contiguous, got ", name);
  return name == "zigzag" ? Shard::kZigZag : Shard::kContiguous;
}

at::Tensor shard_positions_op(const at::Tensor& like, c10::SymInt tokens, std::int64_t rank,
                              std::int64_t ranks, std::string_view shard) {
  return shard_positions(std::move(tokens),
                         {.rank = rank, .ranks = ranks, .shard = shard_of(shard)}, like);
}

at::Tensor shard_tokens_op(const at::Tensor& x, std::int64_t dim, std::int64_t rank,
                           std::int64_t ranks, std::string_view shard) {
  return shard_tokens(x, dim, {.rank = rank, .ranks = ranks, .shard = shard_of(shard)});
}

at::Tensor gather_tokens_op(const at::Tensor& x, std::int64_t dim, std::string_view group,
                            std::int64_t ranks, std::string_view shard) {
  return gather_tokens(x, dim,
                       {.group = std::string(group), .ranks = ranks, .shard = shard_of(shard)});
}

at::Tensor attend_across_op(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                            std::string_view group, std::int64_t rank, std::int64_t ranks,
                            std::string_view shard, bool causal, std::optional<c10::SymInt> window,
                            const OptionalTensor& padding, const OptionalTensor& bias,
                            double dropout, std::optional<double> scale) {
  return attend_across(
      q, k, v,
      {.group = std::string(group), .rank = rank, .ranks = ranks, .shard = shard_of(shard)},
      {.causal = causal,
       .window = std::move(window),
       .padding = padding,
       .bias = bias,
       .dropout = dropout,
       .scale = scale});
}

}  // namespace
}  // namespace rotary::transformer

TORCH_LIBRARY_FRAGMENT(rotary, m) {
  const auto add = [&m](const char* schema) { m.def(schema, {at::Tag::pt2_compliant_tag}); };
  add("shard_positions(Tensor like, SymInt tokens, int rank, int ranks, str shard) -> Tensor");
  add("shard_tokens(Tensor x, int dim, int rank, int ranks, str shard) -> Tensor");
  add("gather_tokens(Tensor x, int dim, str group, int ranks, str shard) -> Tensor");
  add("attend_across(Tensor q, Tensor k, Tensor v, *, str group, int rank, int ranks, str shard, "
      "bool causal=False, SymInt? window=None, Tensor? padding=None, Tensor? bias=None, "
      "float dropout=0.0, float? scale=None) -> Tensor");
}

TORCH_LIBRARY_IMPL(rotary, CompositeImplicitAutograd, m) {
  m.impl("shard_positions", rotary::transformer::shard_positions_op);
  m.impl("shard_tokens", rotary::transformer::shard_tokens_op);
  m.impl("gather_tokens", rotary::transformer::gather_tokens_op);
  m.impl("attend_across", rotary::transformer::attend_across_op);
}
