// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

/// Batches of a task's examples: tokenised, padded to the longest, in another order each epoch.
///
///   namespace rf = rotary::roformer;
///   auto examples = std::make_shared<const rf::ExampleSet>(rf::read_tsv("train.tsv"));
///   std::shared_ptr<const rf::Tokenizer> tokenizer =
///       rf::load_tokenizer({.vocabulary = "vocab.txt", .dictionary = "dict.txt"});
///   rf::ExampleBatches batches(examples, tokenizer, {.rows = 32, .max_length = 512, .epochs = 3});
///   for (rf::Batch batch; batches.next(batch);) {
///   }
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "roformer/data/batch.h"
#include "roformer/data/examples.h"
#include "roformer/text/tokenizer.h"

namespace rotary::roformer {

/// The types of a pair's second text: 1, or 0 as everywhere else.
enum class PairTypes : std::uint8_t { kZeroOne, kZero };

struct ExampleBatchOptions {
  /// Of this rank; the last batch of an epoch may have fewer, or none.
  std::int64_t rows = 32;
  std::size_t max_length = 512;
  /// Lengths are rounded up to a multiple of this.
  std::size_t length_multiple = 8;
  PairTypes pair_types = PairTypes::kZeroOne;
  Order order = Order::kShuffled;
  std::uint64_t seed = 0;
  /// 0: without end.
  std::uint64_t epochs = 1;
  std::uint64_t rank = 0;
  std::uint64_t num_ranks = 1;
};

/// An example as a model reads it, and what the model should say.
struct ExampleRow {
  Encoding encoding{};
  /// A class, or the first and the last token of an answer. Empty where tokens have labels.
  std::vector<std::int64_t> targets{};
  /// Of each token, or kIgnore. Empty where the row has targets.
  std::vector<std::int64_t> labels{};
};

/// Examples of whatever kind, by their numbers.
struct ExampleRows {
  std::size_t count = 0;
  std::function<ExampleRow(std::size_t, const Tokenizer&, const EncodeOptions&)> read{};
};
/// Texts or pairs with their class.
ExampleRows rows_of(std::shared_ptr<const ExampleSet> set);

/// Encodings side by side, padded to the longest and that to the multiple. No labels, no targets.
Batch collate(std::span<const Encoding> encodings, std::int32_t pad_id,
              std::size_t length_multiple = 1);

/// Example k of an epoch's order goes to rank k mod n. Used by one thread.
class ExampleBatches {
 public:
  /// Throws std::invalid_argument for numbers out of range, IoError if the vocabulary has no [PAD].
  ExampleBatches(ExampleRows rows, std::shared_ptr<const Tokenizer> tokenizer,
                 const ExampleBatchOptions& options);
  ExampleBatches(std::shared_ptr<const ExampleSet> set, std::shared_ptr<const Tokenizer> tokenizer,
                 const ExampleBatchOptions& options)
      : ExampleBatches(rows_of(std::move(set)), std::move(tokenizer), options) {}

  /// Replaces `batch`. False after the last epoch.
  bool next(Batch& batch);
  StreamState state() const;
  /// Throws std::invalid_argument for a state of other examples.
  void restore(const StreamState& state);

 private:
  std::uint64_t fingerprint() const noexcept;

  ExampleRows rows_;
  std::shared_ptr<const Tokenizer> tokenizer_;
  ExampleBatchOptions options_;
  std::uint64_t epoch_ = 0;
  std::uint64_t index_ = 0;
  std::uint64_t rows_given_ = 0;
};

}  // namespace rotary::roformer
