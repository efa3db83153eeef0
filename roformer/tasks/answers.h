// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

/// Evaluation of fine-tuned models: classes and numbers of texts and of pairs, and triples.
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
  /// Examples per batch.
  std::int64_t rows = 32;
  /// Of questions, as in WindowOptions.
  std::size_t stride = 0;
};

/// Logits of each example in order: [examples, num_labels], float, on the CPU.
at::Tensor answers_of(ModelImpl& model, std::shared_ptr<const ExampleSet> set,
                      std::shared_ptr<const Tokenizer> tokenizer, const AnswerOptions& options);

struct ClassScore {
  double loss = 0.0;
  /// Confusion matrix, [true class][predicted class].
  std::vector<std::vector<std::int64_t>> table{};

  std::int64_t examples() const noexcept;
  double accuracy() const noexcept;
  /// Precision and recall of one class; 0 if it has no predictions or no examples.
  double precision(std::size_t label) const noexcept;
  double recall(std::size_t label) const noexcept;
  /// F1 of one class. Of two classes, the second is the positive one.
  double f1(std::size_t label) const noexcept;
  /// Mean F1 over classes.
  double macro_f1() const noexcept;
  /// Matthews' correlation of labels and predictions (correlation.h).
  double matthews() const;
};

/// For kSequenceClassification and kPairMatching. A pair model with one label has two classes, a
/// match being a probability of at least 0.5. Throws std::invalid_argument for another model,
/// another number of classes, or examples without classes.
ClassScore score_classes(ModelImpl& model, std::shared_ptr<const ExampleSet> set,
                         std::shared_ptr<const Tokenizer> tokenizer, const AnswerOptions& options);

struct NumberScore {
  std::int64_t examples = 0;
  /// Mean squared error.
  double loss = 0.0;
  /// Correlation of labels and predictions (correlation.h).
  double pearson = 0.0;
  double spearman = 0.0;
};

/// For a model that predicts a number (labels.h). Throws std::invalid_argument for another model,
/// or examples without numbers.
NumberScore score_numbers(ModelImpl& model, std::shared_ptr<const ExampleSet> set,
                          std::shared_ptr<const Tokenizer> tokenizer, const AnswerOptions& options);

struct TripleScore {
  std::int64_t triples = 0;
  /// Triples whose nearer document has the higher score; equal scores count as wrong.
  std::int64_t right = 0;

  double accuracy() const noexcept;
};

/// kPairMatching scores (a, b) and (a, c) by the probability of a match, every other model by the
/// cosine similarity of the documents' mean vectors (zero-shot).
TripleScore score_triples(ModelImpl& model, std::span<const Triple> triples,
                          std::shared_ptr<const Tokenizer> tokenizer, const AnswerOptions& options);

}  // namespace rotary::roformer
