// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

/// How well a tuned model answers: classes of texts and of pairs, and triples.
///
///   namespace rf = rotary::roformer;
///   rf::ClassScore score = rf::score_classes(*model, test, tokenizer, {.max_length = 512});
///   score.accuracy();
///
///   rf::TripleScore cases = rf::score_triples(*model, triples, tokenizer, {.max_length = 1024});
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "roformer/data/example_batches.h"
#include "roformer/data/examples.h"
#include "roformer/model/model.h"

namespace rotary::roformer {

struct AnswerOptions {
  /// Of a text or a pair, with [CLS] and [SEP].
  std::size_t max_length = 512;
  PairTypes pair_types = PairTypes::kZeroOne;
  /// Examples that the model reads at once.
  std::int64_t rows = 32;
};

/// What the model says of each example in turn: [examples, num_labels], float, on the CPU.
at::Tensor answers_of(ModelImpl& model, std::shared_ptr<const ExampleSet> set,
                      std::shared_ptr<const Tokenizer> tokenizer, const AnswerOptions& options);

struct ClassScore {
  double loss = 0.0;
  /// [is][said]: how many of a class were held for another.
  std::vector<std::vector<std::int64_t>> table{};

  std::int64_t examples() const noexcept;
  double accuracy() const noexcept;
  /// Of one class: right of those said, and right of those that are; 0 where there are none.
  double precision(std::size_t label) const noexcept;
  double recall(std::size_t label) const noexcept;
  /// The mean of the classes' F1.
  double macro_f1() const noexcept;
};

/// Of kSequenceClassification and kPairMatching. One label of a pair: a match from probability 0.5
/// on, and two classes. Throws std::invalid_argument for another model, or another number of
/// classes.
ClassScore score_classes(ModelImpl& model, std::shared_ptr<const ExampleSet> set,
                         std::shared_ptr<const Tokenizer> tokenizer, const AnswerOptions& options);

struct TripleScore {
  std::int64_t triples = 0;
  /// Those whose nearer document has the higher score; equal scores are wrong.
  std::int64_t right = 0;

  double accuracy() const noexcept;
};

/// kPairMatching scores (a, b) and (a, c) by the probability of a match. Every other model by the
/// cosine of the documents' mean vectors: what it knows without having been tuned.
TripleScore score_triples(ModelImpl& model, std::span<const Triple> triples,
                          std::shared_ptr<const Tokenizer> tokenizer, const AnswerOptions& options);

}  // namespace rotary::roformer
