// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

/// Context parallelism: one sequence sharded across ranks; attention gathers keys and values with
/// PyTorch's collectives.
///
///   const rotary::transformer::ContextParallel ranks{.group = name, .rank = 1, .ranks = 4};
///   at::Tensor mine = rotary::transformer::shard_tokens(x, /*dim=*/1, ranks);
///   rotary::transformer::Attention attention({.., .causal = true, .context_parallel = ranks});
///   at::Tensor y = rotary::transformer::gather_tokens(attention->forward(mine), 1, ranks);
///
/// Results and gradients are those of one rank, but for rounding. Every rank holds all keys and
/// values of a layer while it runs; queries, scores and everything else are sharded.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/SymInt.h>

#include <cstdint>
#include <string>

namespace rotary::transformer {

struct AttendOptions;

/// Which tokens a rank holds, in 2 x ranks chunks (rank numbers; 4 ranks):
///   kContiguous  [0 0 1 1 2 2 3 3]   tokens divide by ranks
///   kZigZag      [0 1 2 3 3 2 1 0]   tokens divide by 2 x ranks: under a causal mask every rank
///                                    computes the same number of scores
enum class Shard { kContiguous, kZigZag };

struct ContextParallel {
  /// The name of a process group of c10d: group.group_name in Python.
  std::string group{};
  std::int64_t rank = 0;
  std::int64_t ranks = 1;
  Shard shard = Shard::kZigZag;
};

/// [tokens / ranks], int64, on the device of `like`: positions of this rank's tokens.
at::Tensor shard_positions(c10::SymInt tokens, const ContextParallel& parallel,
                           const at::Tensor& like);
/// This rank's shard of x along `dim`.
at::Tensor shard_tokens(const at::Tensor& x, std::int64_t dim, const ContextParallel& parallel);
/// The inverse of shard_tokens(), a collective that every rank must call. Differentiable: gradients
/// of all ranks are summed.
at::Tensor gather_tokens(const at::Tensor& x, std::int64_t dim, const ContextParallel& parallel);

/// attend() for shards: q, k, v and padding ([batch, tokens / ranks]) are this rank's; a bias is
/// [.., this rank's queries, all keys]. Without first and cu_seqlens.
at::Tensor attend_across(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                         const ContextParallel& parallel, const AttendOptions& options);

}  // namespace rotary::transformer
