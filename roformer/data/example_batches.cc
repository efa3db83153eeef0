// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

#include "roformer/data/example_batches.h"

#include <algorithm>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "roformer/data/permutation.h"
#include "roformer/text/hash.h"
#include "rotary/error.h"

namespace rotary::roformer {

Batch collate(std::span<const Encoding> encodings, std::int32_t pad_id,
              std::size_t length_multiple) {
  if (length_multiple == 0) throw std::invalid_argument("[collate] length_multiple must not be 0");
  std::size_t longest = 0;
  for (const Encoding& encoding : encodings) longest = std::max(longest, encoding.ids.size());
  const std::size_t length = (longest + length_multiple - 1) / length_multiple * length_multiple;
  Batch batch;
  batch.rows = static_cast<std::int64_t>(encodings.size());
  batch.length = static_cast<std::int64_t>(length);
  batch.ids.assign(encodings.size() * length, pad_id);
  batch.types.assign(encodings.size() * length, 0);
  for (std::size_t row = 0; row < encodings.size(); ++row) {
    const auto first = static_cast<std::ptrdiff_t>(row * length);
    std::ranges::copy(encodings[row].ids, batch.ids.begin() + first);
    std::ranges::copy(encodings[row].types, batch.types.begin() + first);
    batch.lengths.push_back(static_cast<std::int64_t>(encodings[row].ids.size()));
  }
  return batch;
}

ExampleBatches::ExampleBatches(std::shared_ptr<const ExampleSet> set,
                               std::shared_ptr<const Tokenizer> tokenizer,
                               const ExampleBatchOptions& options)
    : set_(std::move(set)), tokenizer_(std::move(tokenizer)), options_(options) {
  const auto refuse = [](const std::string& message) {
    throw std::invalid_argument("[ExampleBatches] " + message);
  };
  if (!set_ || !tokenizer_) refuse("no examples or no tokenizer");
  if (set_->examples.empty()) refuse("no examples");
  if (options_.rows < 1) refuse("rows must be positive, got " + std::to_string(options_.rows));
  if (options_.num_ranks < 1 || options_.rank >= options_.num_ranks) {
    refuse("rank must be below num_ranks, got " + std::to_string(options_.rank) + " of " +
           std::to_string(options_.num_ranks));
  }
  if (tokenizer_->vocabulary().special().pad == kNoToken) {
    throw IoError(tokenizer_->vocabulary().source(), IoError::kNoOffset,
                  "the vocabulary has no [PAD]");
  }
}

bool ExampleBatches::next(Batch& batch) {
  const std::uint64_t size = set_->examples.size();
  if (index_ >= size) {
    ++epoch_;
    index_ = 0;
  }
  if (options_.epochs > 0 && epoch_ >= options_.epochs) return false;
  const Permutation order(size, options_.seed, epoch_);
  const EncodeOptions encode_options{.max_length = options_.max_length};
  const std::uint64_t rows = static_cast<std::uint64_t>(options_.rows) * options_.num_ranks;
  const std::uint64_t end = std::min(size, index_ + rows);
  std::vector<Encoding> encodings;
  std::vector<std::int64_t> targets;
  for (std::uint64_t k = index_; k < end; ++k) {
    if ((k - index_) % options_.num_ranks != options_.rank) continue;
    const std::uint64_t at = options_.order == Order::kShuffled ? order(k) : k;
    const Example& example = set_->examples[static_cast<std::size_t>(at)];
    encodings.push_back(
        set_->pairs ? encode_pair(*tokenizer_, example.first, example.second, encode_options)
                    : encode(*tokenizer_, example.first, encode_options));
    if (options_.pair_types == PairTypes::kZero) std::ranges::fill(encodings.back().types, 0);
    targets.push_back(example.label);
  }
  batch = collate(encodings, tokenizer_->vocabulary().special().pad, options_.length_multiple);
  batch.targets = std::move(targets);
  rows_given_ += end - index_;
  index_ = end;
  batch.next = state();
  return true;
}

std::uint64_t ExampleBatches::fingerprint() const noexcept {
  return mix(tokenizer_->fingerprint() ^ mix(set_->examples.size()) ^ mix(options_.seed) << 1 ^
             static_cast<std::uint64_t>(options_.order));
}

StreamState ExampleBatches::state() const {
  StreamState state;
  state.position.epoch = epoch_;
  state.position.index = index_;
  state.row = rows_given_;
  state.fingerprint = fingerprint();
  return state;
}

void ExampleBatches::restore(const StreamState& state) {
  if (state.fingerprint != fingerprint() || state.position.index > set_->examples.size()) {
    throw std::invalid_argument(
        "[ExampleBatches] the saved position belongs to other examples, another tokenizer, order "
        "or "
        "seed");
  }
  epoch_ = state.position.epoch;
  index_ = state.position.index;
  rows_given_ = state.row;
}

}  // namespace rotary::roformer
