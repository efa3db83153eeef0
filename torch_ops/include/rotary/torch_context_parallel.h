// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

/// One sequence across several ranks: each holds a shard of the tokens, and attention gathers keys
/// and values by PyTorch's collectives.
///
///   const rotary::torch::ContextParallel ranks{.group = name, .rank = 1, .ranks = 4};
///   at::Tensor mine = rotary::torch::shard_tokens(x, /*dim=*/1, ranks);
///   rotary::torch::Attention attention({.., .causal = true, .context_parallel = ranks});
///   at::Tensor y = rotary::torch::gather_tokens(attention->forward(mine), 1, ranks);
///
/// Results and gradients are those of one rank. Every rank holds all keys and values of a layer
/// while it runs; queries, scores and everything else are sharded.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/SymInt.h>

#include <cstdint>
#include <string>

namespace rotary::torch {

struct AttendOptions;

/// Which tokens a rank holds, in 2 x ranks chunks (rank numbers; 4 ranks):
///   kContiguous  [0 0 1 1 2 2 3 3]   tokens divide by ranks
///   kZigZag      [0 1 2 3 3 2 1 0]   tokens divide by 2 x ranks: under a causal mask every rank
///                                    has the same number of scores to compute
enum class Shard { kContiguous, kZigZag };

struct ContextParallel {
  /// The name of a process group of c10d: group.group_name in Python.
  std::string group{};
  std::int64_t rank = 0;
  std::int64_t ranks = 1;
  Shard shard = Shard::kZigZag;
};

/// [tokens / ranks], int64, on the device of `like`: where this rank's tokens stand.
at::Tensor shard_positions(c10::SymInt tokens, const ContextParallel& across,
                           const at::Tensor& like);
/// This rank's part of x along `dim`.
at::Tensor shard_tokens(const at::Tensor& x, std::int64_t dim, const ContextParallel& across);
/// The whole of what shard_tokens() cut; every rank calls it. Differentiable: gradients of all
/// ranks are summed.
at::Tensor gather_tokens(const at::Tensor& x, std::int64_t dim, const ContextParallel& across);

/// attend() for shards: q, k and v are this rank's; padding too ([batch, tokens / ranks]); a bias
/// is [.., this rank's queries, all keys]. Without first and cu_seqlens.
at::Tensor attend_across(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                         const ContextParallel& across, const AttendOptions& options);

}  // namespace rotary::torch
