// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

/// Streams of tokenised documents over epochs, in an order determined by a seed. A position in the
/// stream is a few numbers; seeking to it gives the same documents again.
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
  /// 0: unlimited.
  std::uint64_t epochs = 0;
};

/// The position of the next document.
struct StreamPosition {
  std::uint64_t epoch = 0;
  /// Index in the epoch (cache) or in the block (text).
  std::uint64_t index = 0;
  /// Text: the beginning of the block.
  DocumentPosition block{};

  friend bool operator==(const StreamPosition&, const StreamPosition&) = default;
};

/// Not thread-safe.
class DocumentStream {
 public:
  virtual ~DocumentStream() = default;
  DocumentStream(const DocumentStream&) = delete;
  DocumentStream& operator=(const DocumentStream&) = delete;

  /// Replaces `out` by a document of at least one token. False after the last epoch.
  virtual bool next(TokenDocument& out) = 0;
  virtual StreamPosition position() const = 0;
  virtual void seek(const StreamPosition& position) = 0;
  /// Equal for streams of the same documents in the same order.
  virtual std::uint64_t fingerprint() const noexcept = 0;

 protected:
  DocumentStream() = default;
};

/// Documents of a cache, shuffled over the whole corpus in every epoch, with constant memory.
std::unique_ptr<DocumentStream> open_stream(std::shared_ptr<const TokenCache> cache,
                                            const StreamOptions& options);

struct TextStreamOptions {
  StreamOptions stream{};
  /// Documents are shuffled within blocks of this size. Memory: threads + 2 blocks.
  std::size_t block = 1024;
  std::size_t threads = 1;
};

/// Tokenises text on the fly in the background, for a corpus that is read once. next() throws
/// IoError for errors in a file.
std::unique_ptr<DocumentStream> open_text_stream(Corpus corpus,
                                                 std::shared_ptr<const Tokenizer> tokenizer,
                                                 const TextStreamOptions& options);

}  // namespace rotary::roformer
