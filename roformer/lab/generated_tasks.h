// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

/// Generated problems for a causal model, by length: what an encoding lets a model do beyond the
/// lengths that it was trained on (Kazemnejad et al. 2023, arXiv:2305.19466).
///
///   namespace lab = rotary::roformer::lab;
///   rf::Random random(seed, stream);
///   lab::Problem p = lab::make_problem(lab::TaskKind::kReverse, 20, random);
///   rf::Batch batch = lab::task_batch(lab::TaskKind::kReverse, {.rows = 128, .max_length = 20},
///                                     random);
///
/// A problem is one row of tokens, of which some are answers; length n is
///   copy       n letters                              the same
///   reverse    n letters                              the same, from the last to the first
///   addition   two numbers of n digits                their sum of n + 1 digits; numbers begin
///                                                     with their last digit
///   sorting    n letters                              the same, in ascending order
///   parity     n bits                                 the parity of each prefix (a scratchpad)
///   indexing   n letters, and an index below 20       the letter at that index
///   recall     n pairs of a key and a value, then     after each key its value
///              four (or n) of the keys (MQAR, arXiv:2312.04927)
///   passkey    4 n words with four digits among them  these digits
///
/// The same seed gives the same problems on every machine.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "roformer/data/batch.h"
#include "roformer/data/random.h"

namespace rotary::roformer::lab {

enum class TaskKind : std::uint8_t {
  kCopy,
  kReverse,
  kAddition,
  kSorting,
  kParity,
  kIndexing,
  kRecall,
  kPasskey,
};
/// All of them, in this order.
std::span<const TaskKind> task_kinds() noexcept;
/// "copy"
std::string_view name_of(TaskKind task) noexcept;

/// Token ids that the tasks share. Letters, keys, values, indices and words follow one another, so
/// that no token has two meanings.
struct TaskTokens {
  static constexpr std::int64_t kPad = 0;
  static constexpr std::int64_t kEquals = 1;
  static constexpr std::int64_t kPlus = 2;
  static constexpr std::int64_t kEnd = 3;
  static constexpr std::int64_t kDigit = 4;  // ten digits; bits are the first two of them
  static constexpr std::int64_t kLetter = 14;
  static constexpr std::int64_t kLetters = 32;
  static constexpr std::int64_t kIndex = kLetter + kLetters;
  static constexpr std::int64_t kIndices = 20;
  static constexpr std::int64_t kKey = kIndex + kIndices;
  static constexpr std::int64_t kKeys = 64;
  static constexpr std::int64_t kWord = kKey + kKeys;
  static constexpr std::int64_t kWords = 4;
  static constexpr std::int64_t kTask = kWord + kWords;  // the first token: one for each task
  static constexpr std::int64_t kTasks = 8;
  static constexpr std::int64_t kCount = kTask + kTasks;  // size of the vocabulary: 142
};

/// One row: [task] prompt [=] answer [end]. A model that learns several tasks knows by the first
/// token which one it is.
struct Problem {
  std::vector<std::int64_t> tokens{};
  /// For each token, whether the model has to predict it: the answer, and [end].
  std::vector<bool> is_answer{};
};

/// Length is from 1 to 64. Throws std::invalid_argument for another.
Problem make_problem(TaskKind task, std::int64_t length, Random& random);
/// Number of tokens of the longest problem of that length.
std::int64_t max_tokens(TaskKind task, std::int64_t length);

struct TaskBatchOptions {
  std::int64_t rows = 128;
  /// Lengths are drawn uniformly from [min_length, max_length].
  std::int64_t min_length = 1;
  std::int64_t max_length = 20;
};

/// Rows of kCausalLm, padded at the end to max_tokens(max_length) - 1. Labels are the next tokens
/// where these are answers. Attention is causal, so that padding needs no mask.
Batch task_batch(TaskKind task, const TaskBatchOptions& options, Random& random);
/// The same for several tasks, which take turns row by row. Rows are as long as those of the task
/// with the longest problems.
Batch task_batch(std::span<const TaskKind> tasks, const TaskBatchOptions& options, Random& random);

}  // namespace rotary::roformer::lab
