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
namespace {

/// [rows, length], padded with kIgnoreIndex.
std::vector<std::int64_t> stack_labels(const std::vector<std::vector<std::int64_t>>& rows,
                                       std::int64_t length) {
  std::vector<std::int64_t> out;
  out.reserve(rows.size() * static_cast<std::size_t>(length));
  for (const std::vector<std::int64_t>& row : rows) {
    out.insert(out.end(), row.begin(), row.end());
    out.resize(out.size() + static_cast<std::size_t>(length) - row.size(), kIgnoreIndex);
  }
  return out;
}

}  // namespace

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

ExampleRows rows_of(std::shared_ptr<const ExampleSet> set) {
  if (!set) return {};
  return {.count = set->examples.size(),
          .read = [set](std::size_t k, const Tokenizer& tokenizer, const EncodeOptions& options) {
            const Example& example = set->examples[k];
            ExampleRow row{.encoding = set->pairs ? encode_pair(tokenizer, example.first,
                                                                example.second, options)
                                                  : encode(tokenizer, example.first, options)};
            if (set->label_kind == LabelKind::kNumber) {
              row.number = static_cast<float>(example.number);
            } else {
              row.targets = {example.label};
            }
            return row;
          }};
}

ExampleBatches::ExampleBatches(ExampleRows rows, std::shared_ptr<const Tokenizer> tokenizer,
                               const ExampleBatchOptions& options)
    : rows_(std::move(rows)), tokenizer_(std::move(tokenizer)), options_(options) {
  const auto fail = [](const std::string& message) {
    throw std::invalid_argument("[ExampleBatches] " + message);
  };
  if (rows_.count == 0) fail("no examples");
  if (!tokenizer_) fail("no tokenizer");
  if (options_.rows < 1) fail("rows must be positive, got " + std::to_string(options_.rows));
  if (options_.num_ranks < 1 || options_.rank >= options_.num_ranks) {
    fail("rank must be below num_ranks, got " + std::to_string(options_.rank) + " of " +
         std::to_string(options_.num_ranks));
  }
  if (tokenizer_->vocabulary().special().pad == kNoToken) {
    throw IoError(tokenizer_->vocabulary().source(), IoError::kNoOffset,
                  "the vocabulary has no [PAD]");
  }
}

bool ExampleBatches::next(Batch& batch) {
  const std::uint64_t size = rows_.count;
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
  std::vector<float> numbers;
  std::vector<std::vector<std::int64_t>> labels;
  for (std::uint64_t k = index_; k < end; ++k) {
    if ((k - index_) % options_.num_ranks != options_.rank) continue;
    const std::uint64_t at = options_.order == Order::kShuffled ? order(k) : k;
    ExampleRow row = rows_.read(static_cast<std::size_t>(at), *tokenizer_, encode_options);
    if (options_.pair_types == PairTypes::kZero) std::ranges::fill(row.encoding.types, 0);
    encodings.push_back(std::move(row.encoding));
    targets.insert(targets.end(), row.targets.begin(), row.targets.end());
    if (row.number) numbers.push_back(*row.number);
    labels.push_back(std::move(row.labels));
  }
  batch = collate(encodings, tokenizer_->vocabulary().special().pad, options_.length_multiple);
  batch.targets = std::move(targets);
  batch.numbers = std::move(numbers);
  if (batch.targets.empty() && batch.numbers.empty())
    batch.labels = stack_labels(labels, batch.length);
  num_rows_ += end - index_;
  index_ = end;
  batch.next = state();
  return true;
}

std::uint64_t ExampleBatches::fingerprint() const noexcept {
  return mix(tokenizer_->fingerprint() ^ mix(rows_.count) ^ mix(options_.seed) << 1 ^
             static_cast<std::uint64_t>(options_.order));
}

StreamState ExampleBatches::state() const {
  StreamState state;
  state.position.epoch = epoch_;
  state.position.index = index_;
  state.row = num_rows_;
  state.fingerprint = fingerprint();
  return state;
}

void ExampleBatches::restore(const StreamState& state) {
  if (state.fingerprint != fingerprint() || state.position.index > rows_.count) {
    throw std::invalid_argument(
        "[ExampleBatches] the saved position belongs to other examples, another tokenizer, order "
        "or seed");
  }
  epoch_ = state.position.epoch;
  index_ = state.position.index;
  num_rows_ = state.row;
}

}  // namespace rotary::roformer
