// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

/// Tokenised documents, epoch after epoch, in an order that a seed decides. The place in the stream
/// is a few numbers: who goes back to it gets the same documents again.
///
///   namespace rf = rotary::roformer;
///   auto cache = std::make_shared<const rf::TokenCache>("corpus.tokens");
///   auto stream = rf::open_stream(cache, {.order = rf::Order::kShuffled, .seed = 1, .epochs = 3});
///   for (rf::TokenDocument document; stream->next(document);) {
///   }
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "roformer/data/documents.h"
#include "roformer/data/token_document.h"

namespace rotary::roformer {

class TokenCache;
class Tokenizer;

enum class Order : std::uint8_t { kShuffled, kInOrder };

struct StreamOptions {
  Order order = Order::kShuffled;
  std::uint64_t seed = 0;
  /// 0: without end.
  std::uint64_t epochs = 0;
};

/// Of the document that next() will give.
struct StreamPosition {
  std::uint64_t epoch = 0;
  /// How many of the epoch (of a cache) or of the block (of a text) came before.
  std::uint64_t index = 0;
  /// Of a text: where the block begins.
  DocumentPosition block{};

  friend bool operator==(const StreamPosition&, const StreamPosition&) = default;
};

/// Used by one thread.
class DocumentStream {
 public:
  virtual ~DocumentStream() = default;
  DocumentStream(const DocumentStream&) = delete;
  DocumentStream& operator=(const DocumentStream&) = delete;

  /// Replaces `out`, which has at least one token; false after the last epoch.
  virtual bool next(TokenDocument& out) = 0;
  virtual StreamPosition position() const = 0;
  virtual void seek(const StreamPosition& position) = 0;
  /// Equal for streams of the same documents in the same order.
  virtual std::uint64_t fingerprint() const noexcept = 0;

 protected:
  DocumentStream() = default;
};

/// Every epoch in another order, of all documents: no list is made, and nothing is read twice.
std::unique_ptr<DocumentStream> open_stream(std::shared_ptr<const TokenCache> cache,
                                            const StreamOptions& options);

struct TextStreamOptions {
  StreamOptions stream{};
  /// Documents are shuffled among this many neighbours. That many stay in memory, for each thread
  /// and two more.
  std::size_t block = 1024;
  std::size_t threads = 1;
};

/// Tokenises on the fly, in the background: for a first look, or a corpus read once. Throws IoError
/// from next() for what is wrong with a file.
std::unique_ptr<DocumentStream> open_text_stream(Corpus corpus,
                                                 std::shared_ptr<const Tokenizer> tokenizer,
                                                 const TextStreamOptions& options);

}  // namespace rotary::roformer
