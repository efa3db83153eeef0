// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

#include "roformer/data/document_stream.h"

#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "roformer/data/ordered_workers.h"
#include "roformer/data/permutation.h"
#include "roformer/data/token_cache.h"
#include "roformer/text/hash.h"
#include "rotary/error.h"

namespace rotary::roformer {
namespace {

std::uint64_t fingerprint_of(const StreamOptions& options, std::uint64_t data) noexcept {
  return mix(mix(data) + mix(options.seed) + static_cast<std::uint64_t>(options.order));
}

class CacheStream final : public DocumentStream {
 public:
  CacheStream(std::shared_ptr<const TokenCache> cache, const StreamOptions& options)
      : cache_(std::move(cache)), options_(options) {
    seek({});
  }

  bool next(TokenDocument& out) override {
    if (position_.index == cache_->num_documents()) seek({.epoch = position_.epoch + 1});
    if (options_.epochs > 0 && position_.epoch >= options_.epochs) return false;
    const std::uint64_t index = position_.index++;
    cache_->read(options_.order == Order::kShuffled ? (*order_)(index) : index, out);
    return true;
  }

  StreamPosition position() const override { return position_; }

  void seek(const StreamPosition& position) override {
    if (position.index > cache_->num_documents()) {
      throw std::invalid_argument(
          "[DocumentStream] the position belongs to another corpus: document " +
          std::to_string(position.index) + " of " + std::to_string(cache_->num_documents()));
    }
    position_ = position;
    order_.emplace(cache_->num_documents(), options_.seed, position.epoch);
  }

  std::uint64_t fingerprint() const noexcept override {
    return fingerprint_of(options_, mix(cache_->fingerprint()) + cache_->checksum());
  }

 private:
  std::shared_ptr<const TokenCache> cache_;
  StreamOptions options_;
  StreamPosition position_;
  std::optional<Permutation> order_;
};

/// Adjacent documents, shuffled within the block.
struct Block {
  std::uint64_t epoch = 0;
  DocumentPosition begin{};
  std::vector<std::string> texts{};
  std::vector<TokenDocument> documents{};
};

class TextStream final : public DocumentStream {
 public:
  TextStream(Corpus corpus, std::shared_ptr<const Tokenizer> tokenizer,
             const TextStreamOptions& options)
      : corpus_(std::move(corpus)), tokenizer_(std::move(tokenizer)), options_(options) {
    if (options_.block == 0) throw std::invalid_argument("[open_text_stream] block must not be 0");
    seek({});
  }

  bool next(TokenDocument& out) override {
    const std::uint64_t begun = block_.epoch;
    while (index_ == block_.documents.size()) {
      Block block;
      if (!workers_->next(block)) return false;
      if (block.documents.empty() && block.epoch > begun + 1) {
        throw IoError(corpus_.files.front().string(), IoError::kNoOffset, "no token in the corpus");
      }
      block_ = std::move(block);
      index_ = 0;
    }
    const Permutation order(block_.documents.size(), options_.stream.seed,
                            mix(block_.epoch + mix(block_.begin.file) + block_.begin.offset));
    const std::uint64_t at = options_.stream.order == Order::kShuffled ? order(index_) : index_;
    ++index_;
    out = block_.documents[static_cast<std::size_t>(at)];
    return true;
  }

  StreamPosition position() const override { return {block_.epoch, index_, block_.begin}; }

  void seek(const StreamPosition& position) override {
    workers_.reset();
    reader_.emplace(corpus_);
    reader_->seek(position.block);
    epoch_ = position.epoch;
    found_in_epoch_ = position.block != DocumentPosition{};
    workers_.emplace([this](Block& block) { return read(block); },
                     [this](Block& in, Block& out) { tokenize(in, out); }, options_.threads,
                     options_.threads + 1);
    block_ = {.epoch = position.epoch, .begin = position.block};
    index_ = 0;
    if (position.index == 0) return;
    if (!workers_->next(block_) || position.index > block_.documents.size()) {
      throw std::invalid_argument(
          "[DocumentStream] the position belongs to another corpus: document " +
          std::to_string(position.index) + " of a block of " +
          std::to_string(block_.documents.size()));
    }
    index_ = static_cast<std::size_t>(position.index);
  }

  std::uint64_t fingerprint() const noexcept override {
    std::uint64_t files = mix(options_.block) + static_cast<std::uint64_t>(corpus_.format);
    for (const auto& file : corpus_.files) files = hash_bytes(file.filename().string(), files);
    return fingerprint_of(options_.stream, mix(tokenizer_->fingerprint()) + files);
  }

 private:
  /// Called by the workers, one at a time.
  bool read(Block& block) {
    std::string text;
    while (options_.stream.epochs == 0 || epoch_ < options_.stream.epochs) {
      block.epoch = epoch_;
      block.begin = reader_->position();
      while (block.texts.size() < options_.block && reader_->next(text)) {
        block.texts.push_back(text);
      }
      if (!block.texts.empty()) {
        found_in_epoch_ = true;
        return true;
      }
      if (!found_in_epoch_) {
        throw IoError(corpus_.files.front().string(), IoError::kNoOffset,
                      "no document in the corpus");
      }
      ++epoch_;
      found_in_epoch_ = false;
      reader_->seek({});
    }
    return false;
  }

  void tokenize(Block& in, Block& out) const {
    Tokens tokens;
    out.epoch = in.epoch;
    out.begin = in.begin;
    for (const std::string& text : in.texts) {
      tokenizer_->tokenize(text, tokens);
      if (tokens.size() > 0) to_document(tokens, out.documents.emplace_back());
    }
  }

  Corpus corpus_;
  std::shared_ptr<const Tokenizer> tokenizer_;
  TextStreamOptions options_;
  std::optional<DocumentReader> reader_;
  std::uint64_t epoch_ = 0;
  bool found_in_epoch_ = false;
  Block block_;
  std::size_t index_ = 0;
  /// Last member: its threads use the others.
  std::optional<OrderedWorkers<Block, Block>> workers_;
};

}  // namespace

std::unique_ptr<DocumentStream> open_stream(std::shared_ptr<const TokenCache> cache,
                                            const StreamOptions& options) {
  if (!cache) throw std::invalid_argument("[open_stream] no cache");
  return std::make_unique<CacheStream>(std::move(cache), options);
}

std::unique_ptr<DocumentStream> open_text_stream(Corpus corpus,
                                                 std::shared_ptr<const Tokenizer> tokenizer,
                                                 const TextStreamOptions& options) {
  if (!tokenizer) throw std::invalid_argument("[open_text_stream] no tokenizer");
  return std::make_unique<TextStream>(std::move(corpus), std::move(tokenizer), options);
}

}  // namespace rotary::roformer
