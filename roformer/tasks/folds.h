// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

/// Cross-validation without a leak: what a fold is tested with, and what it may learn from.
///
///   namespace rf = rotary::roformer;
///   const std::vector<rf::Fold> folds = rf::make_folds(triples, 5, /*seed=*/1);
///
/// The distinct first documents (A of a triple, the text of a single one) are dealt out to the
/// folds. A fold is tested with the items whose first document is its own. It learns from those
/// that hold none of its documents, in whatever place: an item of another fold that has one of them
/// as its second or third is dropped from training. No tested pair is therefore learnt from, in
/// either order, and no tested first document is seen. What may be seen in training is the second
/// or third document of a tested item, in company of others.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "roformer/data/examples.h"
#include "roformer/data/token_examples.h"

namespace rotary::roformer {

/// Numbers of items, ascending.
struct Fold {
  std::vector<std::size_t> train{};
  std::vector<std::size_t> test{};
};

/// Throws std::invalid_argument for fewer than two folds, or more than there are first documents.
std::vector<Fold> make_folds(std::span<const Triple> triples, std::size_t folds,
                             std::uint64_t seed);
std::vector<Fold> make_folds(const ExampleSet& set, std::size_t folds, std::uint64_t seed);
/// The document is the text, or the context of a question.
std::vector<Fold> make_folds(const TagSet& set, std::size_t folds, std::uint64_t seed);
std::vector<Fold> make_folds(const QuestionSet& set, std::size_t folds, std::uint64_t seed);

/// Those items, in that order.
std::vector<Triple> select(std::span<const Triple> triples, std::span<const std::size_t> items);
ExampleSet select(const ExampleSet& set, std::span<const std::size_t> items);
TagSet select(const TagSet& set, std::span<const std::size_t> items);
QuestionSet select(const QuestionSet& set, std::span<const std::size_t> items);

}  // namespace rotary::roformer
