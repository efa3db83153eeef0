// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

/// A tokenised corpus in a memory-mapped file.
///
///   namespace rf = rotary::roformer;
///   const auto tokenizer = rf::load_tokenizer({.kind = rf::TokenizerKind::kByte});
///   rf::build_token_cache({.files = {"corpus.txt"}}, *tokenizer, "corpus.tokens", {.threads = 8});
///   const rf::TokenCache cache("corpus.tokens");
///   cache.num_tokens();
///
/// The file, little endian:
///
///   header     "rotarytk" | version, bytes per token (2 or 4), vocabulary size, 0: 32 bits each |
///              fingerprint of the tokenizer | checksum
///   chunks     of about 64 Ki tokens in whole documents: the end of each document, 32 bits |
///              tokens | one bit per token, 1 at the start of a word | zeros to a multiple of 8
///              bytes
///   directory  a TokenChunk each
///   trailer    offset of the directory | documents | tokens | checksum of the directory |
///              checksum | "rotaryte"
///
/// Header, trailer and directory are verified on opening, a chunk on its first read: the cost of
/// opening does not depend on the size, and corrupt tokens are never returned.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "roformer/data/documents.h"
#include "roformer/data/token_document.h"
#include "rotary/io.h"

namespace rotary::internal {
class PendingFile;
}

namespace rotary::roformer {

class Tokenizer;

/// The directory entry of a chunk.
struct TokenChunk {
  std::uint64_t offset = 0;
  std::uint64_t bytes = 0;
  std::uint64_t first_document = 0;
  std::uint64_t num_documents = 0;
  std::uint64_t num_tokens = 0;
  std::uint64_t checksum = 0;
};

/// The file appears under its name only with finish().
class TokenCacheWriter {
 public:
  TokenCacheWriter(const std::filesystem::path& path, const Tokenizer& tokenizer);
  ~TokenCacheWriter();
  TokenCacheWriter(const TokenCacheWriter&) = delete;
  TokenCacheWriter& operator=(const TokenCacheWriter&) = delete;

  /// Empty documents are skipped. Throws IoError if the disk is full.
  void add(const TokenDocument& document);
  /// Last call. Throws IoError if no document was added.
  void finish();

 private:
  void write_chunk();

  std::string path_;
  std::unique_ptr<internal::PendingFile> file_;
  std::int32_t token_bytes_;
  std::uint64_t offset_ = 0;
  std::uint64_t num_documents_ = 0;
  std::uint64_t num_tokens_ = 0;
  std::vector<std::uint32_t> ends_;
  TokenDocument chunk_;
  std::vector<TokenChunk> directory_;
};

/// Thread-safe.
class TokenCache {
 public:
  /// Throws IoError: no such file, not a cache, another version, truncated, damaged.
  explicit TokenCache(const std::filesystem::path& path);

  std::uint64_t num_documents() const noexcept { return num_documents_; }
  std::uint64_t num_tokens() const noexcept { return num_tokens_; }
  std::int32_t vocabulary_size() const noexcept { return vocabulary_size_; }
  /// Of the tokenizer that made it.
  std::uint64_t fingerprint() const noexcept { return fingerprint_; }
  /// Of all its documents.
  std::uint64_t checksum() const noexcept { return checksum_; }
  /// Throws IoError if another tokenizer made it.
  void check_tokenizer(const Tokenizer& tokenizer) const;

  /// Replaces `out` by document `index`. Throws IoError if its chunk is damaged,
  /// std::invalid_argument if there is no such document.
  void read(std::uint64_t index, TokenDocument& out) const;
  /// Verifies all chunks; throws IoError at the first damaged one.
  void verify() const;

 private:
  std::int32_t token_at(const char* tokens, std::size_t index) const noexcept;
  std::string_view chunk_bytes(std::size_t index) const;

  std::string path_;
  MappedFile file_;
  std::int32_t token_bytes_ = 0;
  std::int32_t vocabulary_size_ = 0;
  std::uint64_t fingerprint_ = 0;
  std::uint64_t checksum_ = 0;
  std::uint64_t num_documents_ = 0;
  std::uint64_t num_tokens_ = 0;
  std::vector<TokenChunk> directory_;
  mutable std::vector<std::atomic<bool>> verified_;  // per chunk
};

struct CacheBuildOptions {
  std::size_t threads = 1;
  /// Called periodically from the calling thread with the totals so far.
  std::function<void(std::uint64_t documents, std::uint64_t tokens)> progress{};
};

/// Tokenises a corpus into a file in parallel. The file does not depend on the number of threads.
void build_token_cache(const Corpus& corpus, const Tokenizer& tokenizer,
                       const std::filesystem::path& path, const CacheBuildOptions& options = {});

}  // namespace rotary::roformer
