// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

#include "roformer/data/batch_stream.h"

#include <algorithm>
#include <array>
#include <limits>
#include <stdexcept>
#include <utility>

#include "json/json.h"
#include "roformer/data/random.h"
#include "rotary/error.h"

namespace rotary::roformer {
namespace {

using internal::Json;

[[noreturn]] void fail(const std::string& message) {
  throw std::invalid_argument("[BatchStream] " + message);
}

void check(const BatchOptions& options) {
  const std::int64_t min_length = framing_tokens(options.framing) + 1;
  if (options.rows < 1) fail("rows must be positive, got " + std::to_string(options.rows));
  if (options.length < min_length) {
    fail("length must be at least " + std::to_string(min_length) + ", got " +
         std::to_string(options.length));
  }
  if (options.rows > std::numeric_limits<std::int32_t>::max() / options.length) {
    fail("a batch must have fewer than 2^31 tokens");
  }
  if (options.num_ranks < 1 || options.rank >= options.num_ranks) {
    fail("rank must be below num_ranks, got " + std::to_string(options.rank) + " of " +
         std::to_string(options.num_ranks));
  }
  const Masking& masking = options.masking;
  const auto is_share = [](double x) { return x >= 0 && x <= 1; };
  if (!is_share(masking.rate) || !is_share(masking.mask_share) || !is_share(masking.random_share) ||
      masking.mask_share + masking.random_share > 1) {
    fail("the rate and the shares of masking must be within 0 and 1");
  }
}

void check(const BatchOptions& options, const Vocabulary& vocabulary) {
  const SpecialIds& special = vocabulary.special();
  const auto need = [&](bool wanted, std::int32_t id, const char* token) {
    if (wanted && id == kNoToken) {
      throw IoError(vocabulary.source(), IoError::kNoOffset,
                    std::string("the vocabulary has no ") + token);
    }
  };
  need(true, special.pad, "[PAD]");
  need(options.framing == Framing::kClsSep, special.cls, "[CLS]");
  need(options.framing != Framing::kNone, special.sep, "[SEP]");
  need(options.objective == Objective::kMasked, special.mask, "[MASK]");
}

}  // namespace

BatchStream::BatchStream(std::unique_ptr<DocumentStream> documents, const Vocabulary& vocabulary,
                         const BatchOptions& options)
    : documents_(std::move(documents)),
      options_(options),
      special_(vocabulary.special()),
      vocabulary_size_(static_cast<std::uint32_t>(vocabulary.size())) {
  if (!documents_) fail("no documents");
  check(options_);
  check(options_, vocabulary);
  document_position_ = documents_->position();
}

bool BatchStream::next_document() {
  document_position_ = documents_->position();
  used_ = 0;
  if (documents_->next(document_)) return true;
  document_.clear();
  return false;
}

/// Appends as much of the document as fits into the row.
void BatchStream::append_sequence() {
  const auto available = static_cast<std::size_t>(options_.length) - row_.ids.size() -
                         static_cast<std::size_t>(framing_tokens(options_.framing));
  const std::size_t count = std::min(available, document_.size() - used_);
  const auto frame = [&](std::int32_t id) {
    row_.ids.push_back(id);
    row_.roles.push_back(MaskRole::kNever);
  };
  row_.begins.push_back(static_cast<std::int32_t>(row_.ids.size()));
  if (options_.framing == Framing::kClsSep) frame(special_.cls);
  for (std::size_t i = 0; i < count; ++i) {
    row_.ids.push_back(document_.ids[used_ + i]);
    row_.roles.push_back(i == 0 || document_.begins[used_ + i] != 0 ? MaskRole::kWordStart
                                                                    : MaskRole::kContinuation);
  }
  if (options_.framing != Framing::kNone) frame(special_.sep);
  used_ += count;
}

/// Makes row_. False if the documents end before its first token, or (kDrop) before it is full.
bool BatchStream::next_row() {
  const auto length = static_cast<std::size_t>(options_.length);
  const auto min_length = static_cast<std::size_t>(framing_tokens(options_.framing)) + 1;
  row_.ids.clear();
  row_.roles.clear();
  row_.begins.clear();
  do {
    if (used_ == document_.size() && !next_document()) {
      if (row_.ids.empty() || options_.last == LastBatch::kDrop) return false;
      break;
    }
    append_sequence();
  } while (options_.packing == Packing::kPacked && row_.ids.size() + min_length <= length);
  pad_row();
  return true;
}

/// Pads row_ to its length.
void BatchStream::pad_row() {
  const auto length = static_cast<std::size_t>(options_.length);
  row_.length = static_cast<std::int64_t>(row_.ids.size());
  if (row_.ids.size() < length) row_.begins.push_back(static_cast<std::int32_t>(row_.length));
  row_.ids.resize(length, special_.pad);
  row_.roles.resize(length, MaskRole::kNever);
}

bool BatchStream::next(Batch& batch) {
  const auto size = static_cast<std::size_t>(options_.rows * options_.length);
  batch = {};
  batch.rows = options_.rows;
  batch.length = options_.length;
  batch.ids.resize(size);
  batch.types.resize(size);
  if (options_.objective != Objective::kNone) batch.labels.resize(size);
  batch.lengths.resize(static_cast<std::size_t>(options_.rows));
  const std::uint64_t rows = static_cast<std::uint64_t>(options_.rows) * options_.num_ranks;
  for (std::uint64_t i = 0; i < rows; ++i) {
    if (!next_row()) {
      if (i == 0 || options_.last == LastBatch::kDrop) return false;
      pad_row();
    }
    if (i % options_.num_ranks == options_.rank) {
      emit_row(batch, static_cast<std::int64_t>(i / options_.num_ranks));
    }
    ++num_rows_;
  }
  if (options_.packing == Packing::kPacked) {
    batch.cu_seqlens.push_back(static_cast<std::int32_t>(size));
  }
  batch.next = state();
  return true;
}

void BatchStream::emit_row(Batch& batch, std::int64_t row) const {
  const std::int64_t first = row * options_.length;
  std::int64_t* const ids = batch.ids.data() + first;
  std::ranges::copy(row_.ids, ids);
  batch.lengths[static_cast<std::size_t>(row)] = row_.length;
  if (options_.packing == Packing::kPacked) {
    for (const std::int32_t begin : row_.begins) {
      batch.cu_seqlens.push_back(static_cast<std::int32_t>(first) + begin);
    }
  }
  if (options_.objective == Objective::kMasked)
    mask_row(num_rows_, ids, batch.labels.data() + first);
  if (options_.objective == Objective::kCausal) shift_labels(batch.labels.data() + first);
}

void BatchStream::mask_row(std::uint64_t number, std::int64_t* ids, std::int64_t* labels) const {
  Random random(options_.seed, number);
  mask_tokens(options_.masking, special_.mask, vocabulary_size_, random, row_.roles,
              {ids, row_.ids.size()}, {labels, row_.ids.size()});
}

void BatchStream::shift_labels(std::int64_t* labels) const {
  std::size_t sequence = 0;
  for (std::size_t i = 0; i < row_.ids.size(); ++i) {
    while (sequence < row_.begins.size() && static_cast<std::size_t>(row_.begins[sequence]) <= i) {
      ++sequence;
    }
    const bool last =
        i + 1 == static_cast<std::size_t>(row_.length) ||
        (sequence < row_.begins.size() && static_cast<std::size_t>(row_.begins[sequence]) == i + 1);
    const bool padding = i >= static_cast<std::size_t>(row_.length);
    labels[i] = last || padding ? kIgnoreIndex : row_.ids[i + 1];
  }
}

StreamState BatchStream::state() const {
  const bool at_document_end = used_ == document_.size();
  return {.position = at_document_end ? documents_->position() : document_position_,
          .offset = at_document_end ? 0 : used_,
          .row = num_rows_,
          .fingerprint = documents_->fingerprint()};
}

void BatchStream::restore(const StreamState& state) {
  if (state.fingerprint != documents_->fingerprint()) {
    fail("the saved position belongs to other data, another tokenizer, order or seed");
  }
  documents_->seek(state.position);
  document_.clear();
  used_ = 0;
  if (state.offset > 0 && (!next_document() || state.offset >= document_.size())) {
    fail("the saved position lies beyond its document");
  }
  used_ = static_cast<std::size_t>(state.offset);
  num_rows_ = state.row;
}

// ---- State as JSON --------------------------------------------------------------------------

std::string to_json(const StreamState& state) {
  const Json json = {{"epoch", state.position.epoch},
                     {"index", state.position.index},
                     {"file", state.position.block.file},
                     {"byte", state.position.block.offset},
                     {"offset", state.offset},
                     {"row", state.row},
                     {"fingerprint", state.fingerprint}};
  return json.dump();
}

StreamState stream_state_from_json(std::string_view text) {
  const Json json = internal::try_parse_json(text);
  StreamState state;
  const std::array<std::pair<const char*, std::uint64_t*>, 7> fields{
      {{"epoch", &state.position.epoch},
       {"index", &state.position.index},
       {"file", &state.position.block.file},
       {"byte", &state.position.block.offset},
       {"offset", &state.offset},
       {"row", &state.row},
       {"fingerprint", &state.fingerprint}}};
  for (const auto& [name, value] : fields) {
    const Json* at = json.find(name);
    if (at == nullptr || !at->is_uint64()) {
      throw std::invalid_argument(
          std::string("[stream_state_from_json] expected an object with the number \"") + name +
          "\"");
    }
    *value = at->as_uint64();
  }
  return state;
}

}  // namespace rotary::roformer
