// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

/// Cross-validation without leakage: test and training items of each fold.
///
///   namespace rf = rotary::roformer;
///   const std::vector<rf::Fold> folds = rf::make_folds(triples, 5, /*seed=*/1);
///
/// The distinct first documents (A of a triple, the text of a single example) are distributed over
/// the folds. A fold is tested with the items whose first document is its own, and trained with
/// those that contain none of its documents in any position: an item of another fold with one of
/// them as its second or third document is dropped. So no tested pair is trained on, in either
/// order, and no tested first document is seen. Training may see the second or third document of a
/// tested item, paired with others.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "roformer/data/examples.h"
#include "roformer/data/token_examples.h"

namespace rotary::roformer {

/// Indices of items, ascending.
struct Fold {
  std::vector<std::size_t> train{};
  std::vector<std::size_t> test{};
};

/// Throws std::invalid_argument for fewer than two folds, or more than there are first documents.
std::vector<Fold> make_folds(std::span<const Triple> triples, std::size_t folds,
                             std::uint64_t seed);
std::vector<Fold> make_folds(const ExampleSet& set, std::size_t folds, std::uint64_t seed);
/// The first document is the text, or the context of a question.
std::vector<Fold> make_folds(const TagSet& set, std::size_t folds, std::uint64_t seed);
std::vector<Fold> make_folds(const QuestionSet& set, std::size_t folds, std::uint64_t seed);

/// The items with these indices, in this order.
std::vector<Triple> select(std::span<const Triple> triples, std::span<const std::size_t> items);
ExampleSet select(const ExampleSet& set, std::span<const std::size_t> items);
TagSet select(const TagSet& set, std::span<const std::size_t> items);
QuestionSet select(const QuestionSet& set, std::span<const std::size_t> items);

}  // namespace rotary::roformer
