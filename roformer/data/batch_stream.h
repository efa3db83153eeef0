// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

/// Batches for pretraining: documents are split, packed into rows, masked and distributed to ranks.
///
///   namespace rf = rotary::roformer;
///   const auto tokenizer = rf::load_tokenizer({.kind = rf::TokenizerKind::kByte});
///   auto cache = std::make_shared<const rf::TokenCache>("corpus.tokens");
///   rf::BatchStream batches(rf::open_stream(cache, {.seed = 1}), tokenizer->vocabulary(),
///                           {.rows = 64, .length = 512, .seed = 1});
///   rf::Prefetch<rf::Batch> ahead([&](rf::Batch& b) { return batches.next(b); }, 4);
///   for (rf::Batch batch; ahead.next(batch);) {
///     // train; then save rf::to_json(batch.next) with the checkpoint
///   }
///
/// Row k of the stream depends only on the data, the seed and k, and belongs to rank k mod n: n
/// ranks together get, step by step, the rows that one rank with n times the rows gets.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "roformer/data/batch.h"
#include "roformer/data/document_stream.h"
#include "roformer/data/masking.h"
#include "roformer/data/token_document.h"
#include "roformer/text/vocabulary.h"

namespace rotary::roformer {

///   kPacked   [CLS] a b c [SEP] [CLS] d e f g [SEP] [CLS] ...    rows are full; see cu_seqlens
///   kPadded   [CLS] a b c [SEP] [PAD] [PAD] ...                  a row is (a part of) one document
enum class Packing : std::uint8_t { kPacked, kPadded };
/// Special tokens around each part of a document.
enum class Framing : std::uint8_t { kClsSep, kSep, kNone };
constexpr std::int64_t framing_tokens(Framing framing) noexcept {
  return framing == Framing::kClsSep ? 2 : framing == Framing::kSep ? 1 : 0;
}
enum class Objective : std::uint8_t { kMasked, kCausal, kNone };
/// The last, incomplete batch (over all ranks): dropped, or filled with rows of padding.
enum class LastBatch : std::uint8_t { kDrop, kFill };

struct BatchOptions {
  /// Rows per batch of this rank.
  std::int64_t rows = 32;
  std::int64_t length = 512;
  Packing packing = Packing::kPacked;
  Framing framing = Framing::kClsSep;
  Objective objective = Objective::kMasked;
  Masking masking{};
  /// Seed of the masks.
  std::uint64_t seed = 0;
  std::uint64_t rank = 0;
  std::uint64_t num_ranks = 1;
  LastBatch last = LastBatch::kDrop;
};

/// Not thread-safe.
class BatchStream {
 public:
  /// Throws std::invalid_argument for options out of range, IoError if the vocabulary lacks a
  /// special token that is needed. The vocabulary is not kept.
  BatchStream(std::unique_ptr<DocumentStream> documents, const Vocabulary& vocabulary,
              const BatchOptions& options);

  /// Replaces `batch`. False at the end of the documents, for all ranks in the same call.
  bool next(Batch& batch);

  const BatchOptions& options() const noexcept { return options_; }
  StreamState state() const;
  /// Resumes from a state, bit for bit. Length and rows may differ: the documents continue at the
  /// saved position. Throws std::invalid_argument for a state of other data or another order.
  void restore(const StreamState& state);

 private:
  struct Row {
    std::vector<std::int32_t> ids;
    std::vector<MaskRole> roles;
    /// Offsets of the sequences.
    std::vector<std::int32_t> begins;
    std::int64_t length = 0;
  };

  bool next_row();
  void pad_row();
  bool next_document();
  void append_sequence();
  void emit_row(Batch& batch, std::int64_t row) const;
  void mask_row(std::uint64_t number, std::int64_t* ids, std::int64_t* labels) const;
  void shift_labels(std::int64_t* labels) const;

  std::unique_ptr<DocumentStream> documents_;
  BatchOptions options_;
  SpecialIds special_;
  std::uint32_t vocabulary_size_;
  Row row_;
  std::uint64_t num_rows_ = 0;
  TokenDocument document_;
  StreamPosition document_position_{};
  std::size_t used_ = 0;  // tokens of document_ in earlier sequences
};

std::string to_json(const StreamState& state);
/// Throws std::invalid_argument for text that is not of to_json().
StreamState stream_state_from_json(std::string_view text);

}  // namespace rotary::roformer
