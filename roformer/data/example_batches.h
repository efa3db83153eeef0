// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

/// Batches of task examples: tokenised, padded to the longest, reshuffled in every epoch.
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
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "roformer/data/batch.h"
#include "roformer/data/examples.h"
#include "roformer/text/tokenizer.h"

namespace rotary::roformer {

/// Token types of the second text of a pair: 1, or 0 like the first.
enum class PairTypes : std::uint8_t { kZeroOne, kZero };

struct ExampleBatchOptions {
  /// Rows per batch of this rank; the last batch of an epoch may have fewer or none.
  std::int64_t rows = 32;
  std::size_t max_length = 512;
  /// Lengths are rounded up to a multiple of this.
  std::size_t length_multiple = 8;
  PairTypes pair_types = PairTypes::kZeroOne;
  Order order = Order::kShuffled;
  std::uint64_t seed = 0;
  /// 0: unlimited.
  std::uint64_t epochs = 1;
  std::uint64_t rank = 0;
  std::uint64_t num_ranks = 1;
};

/// An encoded example and its targets.
struct ExampleRow {
  Encoding encoding{};
  /// A class, or first and last token of an answer. Empty for token labels.
  std::vector<std::int64_t> targets{};
  /// The label of a regression.
  std::optional<float> number{};
  /// A label per token, or kIgnoreIndex. Empty if the row has targets or a number.
  std::vector<std::int64_t> labels{};
};

/// Examples of any kind, by index.
struct ExampleRows {
  std::size_t count = 0;
  std::function<ExampleRow(std::size_t, const Tokenizer&, const EncodeOptions&)> read{};
};
/// Texts or pairs, with a class or a number each.
ExampleRows rows_of(std::shared_ptr<const ExampleSet> set);

/// Stacks encodings, padded to the longest, rounded up to the multiple. No labels, no targets.
Batch collate(std::span<const Encoding> encodings, std::int32_t pad_id,
              std::size_t length_multiple = 1);

/// Example k in the order of an epoch belongs to rank k mod n. Not thread-safe.
class ExampleBatches {
 public:
  /// Throws std::invalid_argument for options out of range, IoError if the vocabulary has no [PAD].
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
  std::uint64_t num_rows_ = 0;
};

}  // namespace rotary::roformer
