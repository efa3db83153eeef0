// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

#include "roformer/data/token_cache.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <limits>
#include <stdexcept>
#include <utility>

#include "io/pending_file.h"
#include "roformer/data/ordered_workers.h"
#include "roformer/text/hash.h"
#include "roformer/text/tokenizer.h"

namespace rotary::roformer {
namespace {

static_assert(std::endian::native == std::endian::little, "the file is written as memory is");

constexpr std::uint32_t kVersion = 1;
constexpr std::size_t kChunkTokens = std::size_t{1} << 16;

struct Header {
  char magic[8] = {'r', 'o', 't', 'a', 'r', 'y', 't', 'k'};
  std::uint32_t version = kVersion;
  std::uint32_t token_bytes = 0;
  std::uint32_t vocabulary_size = 0;
  std::uint32_t zero = 0;
  std::uint64_t fingerprint = 0;
  std::uint64_t checksum = 0;
};

struct Trailer {
  std::uint64_t directory = 0;
  std::uint64_t num_documents = 0;
  std::uint64_t num_tokens = 0;
  std::uint64_t directory_checksum = 0;
  std::uint64_t checksum = 0;
  char magic[8] = {'r', 'o', 't', 'a', 'r', 'y', 't', 'e'};
};

template <typename T>
std::string_view bytes_of(const T& value) noexcept {
  return {reinterpret_cast<const char*>(&value), sizeof(T)};
}

template <typename T>
std::uint64_t checksum_of(T value) noexcept {
  value.checksum = 0;
  return hash_bytes(bytes_of(value));
}

/// Byte offsets of the parts of a chunk.
struct ChunkLayout {
  std::size_t tokens;
  std::size_t bits;
  std::size_t end;

  ChunkLayout(std::size_t documents, std::size_t count, std::size_t token_bytes) noexcept
      : tokens(documents * sizeof(std::uint32_t)),
        bits(tokens + count * token_bytes),
        end((bits + (count + 7) / 8 + 7) / 8 * 8) {}
};

}  // namespace

// ---- Writing -----------------------------------------------------------------------------------

TokenCacheWriter::TokenCacheWriter(const std::filesystem::path& path, const Tokenizer& tokenizer)
    : path_(path.string()),
      file_(std::make_unique<internal::PendingFile>(path)),
      token_bytes_(tokenizer.vocabulary().size() <= 0x10000 ? 2 : 4) {
  Header header;
  header.token_bytes = static_cast<std::uint32_t>(token_bytes_);
  header.vocabulary_size = static_cast<std::uint32_t>(tokenizer.vocabulary().size());
  header.fingerprint = tokenizer.fingerprint();
  header.checksum = checksum_of(header);
  file_->append(&header, sizeof header);
  offset_ = sizeof header;
}

TokenCacheWriter::~TokenCacheWriter() = default;

void TokenCacheWriter::add(const TokenDocument& document) {
  if (document.size() == 0) return;
  if (document.size() > std::numeric_limits<std::uint32_t>::max() - kChunkTokens) {
    throw std::invalid_argument("[TokenCacheWriter] a document of " +
                                std::to_string(document.size()) + " tokens is too long");
  }
  chunk_.ids.insert(chunk_.ids.end(), document.ids.begin(), document.ids.end());
  chunk_.begins.insert(chunk_.begins.end(), document.begins.begin(), document.begins.end());
  ends_.push_back(static_cast<std::uint32_t>(chunk_.size()));
  if (chunk_.size() >= kChunkTokens) write_chunk();
}

void TokenCacheWriter::write_chunk() {
  const std::size_t count = chunk_.size();
  const ChunkLayout layout(ends_.size(), count, static_cast<std::size_t>(token_bytes_));
  std::string bytes(layout.end, '\0');
  std::memcpy(bytes.data(), ends_.data(), layout.tokens);
  if (token_bytes_ == 4) {
    std::memcpy(bytes.data() + layout.tokens, chunk_.ids.data(), 4 * count);
  } else {
    for (std::size_t i = 0; i < count; ++i) {
      const auto id = static_cast<std::uint16_t>(chunk_.ids[i]);
      std::memcpy(bytes.data() + layout.tokens + 2 * i, &id, 2);
    }
  }
  for (std::size_t i = 0; i < count; ++i) {
    if (chunk_.begins[i] == 0) continue;
    char& byte = bytes[layout.bits + i / 8];
    byte = static_cast<char>(static_cast<unsigned char>(byte) | 1u << i % 8);
  }
  file_->append(bytes.data(), bytes.size());
  directory_.push_back(
      {offset_, bytes.size(), num_documents_, ends_.size(), count, hash_bytes(bytes)});
  offset_ += bytes.size();
  num_documents_ += ends_.size();
  num_tokens_ += count;
  chunk_.clear();
  ends_.clear();
}

void TokenCacheWriter::finish() {
  if (!ends_.empty()) write_chunk();
  if (num_documents_ == 0) {
    throw IoError(path_, IoError::kNoOffset, "no document to write: is the corpus empty?");
  }
  const std::string_view directory(reinterpret_cast<const char*>(directory_.data()),
                                   directory_.size() * sizeof(TokenChunk));
  file_->append(directory.data(), directory.size());
  Trailer trailer;
  trailer.directory = offset_;
  trailer.num_documents = num_documents_;
  trailer.num_tokens = num_tokens_;
  trailer.directory_checksum = hash_bytes(directory);
  trailer.checksum = checksum_of(trailer);
  file_->append(&trailer, sizeof trailer);
  file_->commit_durably();
}

// ---- Reading -----------------------------------------------------------------------------------

TokenCache::TokenCache(const std::filesystem::path& path) : path_(path.string()), file_(path) {
  const std::string_view bytes = file_.bytes();
  const auto fail = [&](std::size_t at, const char* message) {
    throw IoError(path_, static_cast<std::int64_t>(at), message);
  };
  Header header;
  Trailer trailer;
  const Header expected;
  if (!bytes.starts_with(std::string_view(expected.magic, sizeof expected.magic))) {
    fail(0, "not a token cache");
  }
  if (bytes.size() < sizeof header + sizeof trailer) fail(bytes.size(), "a truncated token cache");
  std::memcpy(&header, bytes.data(), sizeof header);
  if (header.version != kVersion) {
    throw IoError(path_, 8,
                  "a token cache of version " + std::to_string(header.version) +
                      ", this program reads " + std::to_string(kVersion) + "; rebuild it");
  }
  if (header.checksum != checksum_of(header) ||
      (header.token_bytes != 2 && header.token_bytes != 4)) {
    fail(0, "a damaged token cache: the header");
  }
  const std::size_t end = bytes.size() - sizeof trailer;
  std::memcpy(&trailer, bytes.data() + end, sizeof trailer);
  if (!std::ranges::equal(trailer.magic, Trailer().magic)) fail(end, "a truncated token cache");
  if (trailer.checksum != checksum_of(trailer) || trailer.directory > end ||
      trailer.directory < sizeof header || trailer.directory == end ||
      (end - trailer.directory) % sizeof(TokenChunk) != 0) {
    fail(end, "a damaged token cache: the trailer");
  }
  const std::string_view directory = bytes.substr(trailer.directory, end - trailer.directory);
  if (trailer.directory_checksum != hash_bytes(directory)) {
    fail(trailer.directory, "a damaged token cache: the directory");
  }
  directory_.resize(directory.size() / sizeof(TokenChunk));
  std::memcpy(directory_.data(), directory.data(), directory.size());
  token_bytes_ = static_cast<std::int32_t>(header.token_bytes);
  vocabulary_size_ = static_cast<std::int32_t>(header.vocabulary_size);
  fingerprint_ = header.fingerprint;
  checksum_ = trailer.directory_checksum;  // of the checksums of all chunks
  num_documents_ = trailer.num_documents;
  num_tokens_ = trailer.num_tokens;

  // The checksums match, but the file may come from a faulty writer.
  std::uint64_t offset = sizeof header;
  std::uint64_t documents = 0;
  std::uint64_t tokens = 0;
  for (const TokenChunk& chunk : directory_) {
    constexpr std::uint64_t kMax = std::numeric_limits<std::uint32_t>::max();
    if (chunk.offset != offset || chunk.first_document != documents || chunk.num_documents == 0 ||
        chunk.num_documents > kMax || chunk.num_tokens > kMax ||
        chunk.bytes != ChunkLayout(chunk.num_documents, chunk.num_tokens,
                                   static_cast<std::size_t>(token_bytes_))
                           .end ||
        chunk.bytes > trailer.directory - offset) {
      fail(trailer.directory, "a damaged token cache: the directory");
    }
    offset += chunk.bytes;
    documents += chunk.num_documents;
    tokens += chunk.num_tokens;
  }
  if (offset != trailer.directory || documents != num_documents_ || tokens != num_tokens_ ||
      documents == 0) {
    fail(trailer.directory, "a damaged token cache: the directory");
  }
  verified_ = std::vector<std::atomic<bool>>(directory_.size());
}

void TokenCache::check_tokenizer(const Tokenizer& tokenizer) const {
  if (tokenizer.fingerprint() == fingerprint_) return;
  throw IoError(path_, IoError::kNoOffset,
                "made by another tokenizer (vocabulary of " + std::to_string(vocabulary_size_) +
                    " tokens, here " + std::to_string(tokenizer.vocabulary().size()) +
                    "; dictionary and options count too); rebuild it");
}

/// An id beyond 31 bits is negative, hence invalid.
std::int32_t TokenCache::token_at(const char* tokens, std::size_t index) const noexcept {
  std::uint32_t id = 0;
  if (token_bytes_ == 2) {  // constant sizes compile to single loads
    std::memcpy(&id, tokens + 2 * index, 2);
  } else {
    std::memcpy(&id, tokens + 4 * index, 4);
  }
  return static_cast<std::int32_t>(id);
}

std::string_view TokenCache::chunk_bytes(std::size_t index) const {
  const TokenChunk& chunk = directory_[index];
  const std::string_view bytes = file_.bytes().substr(chunk.offset, chunk.bytes);
  if (verified_[index].load(std::memory_order_acquire)) return bytes;
  bool valid = hash_bytes(bytes) == chunk.checksum;
  std::uint32_t before = 0;
  for (std::uint64_t i = 0; valid && i < chunk.num_documents; ++i) {
    std::uint32_t end = 0;
    std::memcpy(&end, bytes.data() + i * sizeof end, sizeof end);
    valid = end > before && end <= chunk.num_tokens;
    before = end;
  }
  const std::size_t tokens = static_cast<std::size_t>(chunk.num_documents) * sizeof before;
  for (std::uint64_t i = 0; valid && i < chunk.num_tokens; ++i) {
    const std::int32_t id = token_at(bytes.data() + tokens, i);
    valid = id >= 0 && id < vocabulary_size_;
  }
  if (!valid || before != chunk.num_tokens) {
    throw IoError(path_, static_cast<std::int64_t>(chunk.offset),
                  "a damaged token cache: documents " + std::to_string(chunk.first_document) +
                      " to " + std::to_string(chunk.first_document + chunk.num_documents - 1));
  }
  verified_[index].store(true, std::memory_order_release);
  return bytes;
}

void TokenCache::read(std::uint64_t index, TokenDocument& out) const {
  if (index >= num_documents_) {
    throw std::invalid_argument("[TokenCache] document must be below " +
                                std::to_string(num_documents_) + ", got " + std::to_string(index));
  }
  const auto after = std::ranges::upper_bound(directory_, index, {}, &TokenChunk::first_document);
  const auto at = static_cast<std::size_t>(after - directory_.begin()) - 1;
  const TokenChunk& chunk = directory_[at];
  const char* const bytes = chunk_bytes(at).data();
  const std::size_t local = static_cast<std::size_t>(index - chunk.first_document);
  std::uint32_t begin = 0;
  std::uint32_t end = 0;
  if (local > 0) std::memcpy(&begin, bytes + (local - 1) * sizeof begin, sizeof begin);
  std::memcpy(&end, bytes + local * sizeof end, sizeof end);

  const ChunkLayout layout(chunk.num_documents, chunk.num_tokens,
                           static_cast<std::size_t>(token_bytes_));
  const std::size_t count = end - begin;
  out.ids.resize(count);
  out.begins.resize(count);
  for (std::size_t i = 0; i < count; ++i) {
    out.ids[i] = token_at(bytes + layout.tokens, begin + i);
    const auto byte = static_cast<unsigned char>(bytes[layout.bits + (begin + i) / 8]);
    out.begins[i] = byte >> (begin + i) % 8 & 1;
  }
}

void TokenCache::verify() const {
  for (std::size_t i = 0; i < directory_.size(); ++i) static_cast<void>(chunk_bytes(i));
}

// ---- Building a cache --------------------------------------------------------------------------

void build_token_cache(const Corpus& corpus, const Tokenizer& tokenizer,
                       const std::filesystem::path& path, const CacheBuildOptions& options) {
  using Texts = std::vector<std::string>;
  using Documents = std::vector<TokenDocument>;
  constexpr std::size_t kBytesPerItem = std::size_t{1} << 20;
  DocumentReader reader(corpus);
  TokenCacheWriter writer(path, tokenizer);
  OrderedWorkers<Texts, Documents> workers(
      [&](Texts& texts) {
        std::string text;
        for (std::size_t bytes = 0; bytes < kBytesPerItem && reader.next(text);
             bytes += text.size()) {
          texts.push_back(text);
        }
        return !texts.empty();
      },
      [&](Texts& texts, Documents& documents) {
        Tokens tokens;
        documents.resize(texts.size());
        for (std::size_t i = 0; i < texts.size(); ++i) {
          tokenizer.tokenize(texts[i], tokens);
          to_document(tokens, documents[i]);
        }
      },
      options.threads, 2 * options.threads + 2);
  std::uint64_t num_documents = 0;
  std::uint64_t num_tokens = 0;
  for (Documents documents; workers.next(documents);) {
    for (const TokenDocument& document : documents) {
      writer.add(document);
      num_documents += document.size() > 0 ? 1 : 0;
      num_tokens += document.size();
    }
    if (options.progress) options.progress(num_documents, num_tokens);
  }
  writer.finish();
}

}  // namespace rotary::roformer
