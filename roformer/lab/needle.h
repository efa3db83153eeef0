// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

/// Retrieval: key-value pairs hidden in a text, as passkeys are.
///
///   text ... K V ... text ... K V ... text        training: each pair stands twice in a row, at
///                                                 any distance; the first V tells the second
///   K V k v K V . k v . K V . k v . . .           or again and again, close to one another: from
///                                                 such rows a model soon learns to look a key up
///   text ... K V ... text ... k v ... text  K ?   test: the pair at a depth, others (k v) in any
///                                                 place, its key asked at the end of the row
///
/// Keys and values are kNumKeys and kNumValues tokens of their own, after those of the tokenizer.
/// A guess is right once in kNumValues; one among the values of the row, once in 1 + kDistractors.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

#include "roformer/lab/text_data.h"
#include "roformer/model/model.h"

namespace rotary::roformer::lab {

inline constexpr std::int64_t kNumKeys = 32;
inline constexpr std::int64_t kNumValues = 32;
inline constexpr std::int64_t kDistractors = 3;
/// Added to the vocabulary of the text.
inline constexpr std::int64_t kNeedleTokens = kNumKeys + kNumValues;

/// Tokens of text between two pairs of a row that is filled with pairs, at most.
inline constexpr std::int64_t kMaxGap = 6;

/// Random rows of text for a causal LM, a share of them with `pairs` key-value pairs: in turns, a
/// row with each pair twice, and one that is filled with pairs.
struct NeedleOptions {
  std::int64_t rows = 64;
  std::int64_t length = 512;
  /// Share of the rows that have pairs, and how many.
  double share = 0.5;
  std::int64_t pairs = 8;
  std::uint64_t seed = 0;
};
/// Throws std::invalid_argument if the length has no room for the pairs.
TrainingBatch needle_batch(const TextData& data, const NeedleOptions& options, std::int64_t step);

/// Share of `rows` rows of held-out text whose value a model finds: the pair begins `distance`
/// tokens before the key that is asked. Rows are the same for every model.
double retrieval_at(ModelImpl& model, const TextData& data, std::int64_t length,
                    std::int64_t distance, std::int64_t rows);

}  // namespace rotary::roformer::lab
