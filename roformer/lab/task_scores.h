// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// How many generated problems a model solves.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "roformer/lab/generated_tasks.h"
#include "roformer/lab/roper_tasks.h"
#include "roformer/model/model.h"

namespace rotary::roformer::lab {

struct TaskScore {
  /// Share of the problems whose whole answer is right, [end] included. Each token of an answer is
  /// predicted after the right ones before it: the answer is right if and only if greedy decoding
  /// gives it.
  double exact = 0.0;
  /// Share of the tokens of the answers that are right.
  double tokens = 0.0;
};

/// Of `problems` problems of one length, which depend on task, length and seed alone.
TaskScore score_task(ModelImpl& model, TaskKind task, std::int64_t length, std::int64_t problems,
                     std::uint64_t seed);

/// Greedy continuations: of each prompt, until all rows together have `max_tokens` tokens. Ids are
/// those of the alphabet; what follows the first '#' is left out.
std::vector<std::string> continue_greedily(ModelImpl& model, const Alphabet& alphabet,
                                           const std::vector<std::string>& prompts,
                                           std::int64_t max_tokens);
/// How many of `problems` problems of addition or index the model solves: the result of its
/// continuation is that of the solution.
std::int64_t count_solved(ModelImpl& model, RoperTask task, std::int64_t problems,
                          std::uint64_t seed, const RoperStrings& strings = {});

/// Mean loss of a batch, nats per label.
double batch_loss(ModelImpl& model, const Batch& batch);

}  // namespace rotary::roformer::lab
