// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// libFuzzer: any bytes as a token cache. Where the input is long enough its checksums are made
// right first: random changes would otherwise never get past them.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <string>
#include <string_view>

#include "input_file.h"
#include "roformer/data/token_cache.h"
#include "roformer/text/hash.h"
#include "rotary/error.h"

namespace {

namespace rf = rotary::roformer;

constexpr std::size_t kHeaderBytes = 40;
constexpr std::size_t kTrailerBytes = 48;
constexpr std::size_t kHeaderChecksum = 32;
constexpr std::size_t kDirectoryChecksum = 24;
constexpr std::size_t kTrailerChecksum = 32;

std::uint64_t word_at(const std::string& file, std::size_t offset) {
  std::uint64_t word = 0;
  std::memcpy(&word, file.data() + offset, sizeof word);
  return word;
}

void set_word(std::string& file, std::size_t offset, std::uint64_t word) {
  std::memcpy(file.data() + offset, &word, sizeof word);
}

std::uint64_t hash_of(const std::string& file, std::size_t offset, std::size_t size) {
  return rf::hash_bytes(std::string_view(file).substr(offset, size));
}

/// Of a part that holds its own checksum, which counts as 0.
void set_own_checksum(std::string& file, std::size_t begin, std::size_t size, std::size_t at) {
  set_word(file, begin + at, 0);
  set_word(file, begin + at, hash_of(file, begin, size));
}

void repair_checksums(std::string& file) {
  if (file.size() < kHeaderBytes + kTrailerBytes) return;
  set_own_checksum(file, 0, kHeaderBytes, kHeaderChecksum);
  const std::size_t trailer = file.size() - kTrailerBytes;
  const std::size_t directory = std::min<std::uint64_t>(word_at(file, trailer), trailer);
  for (std::size_t at = directory; at + sizeof(rf::TokenChunk) <= trailer;
       at += sizeof(rf::TokenChunk)) {
    const std::uint64_t begin = std::min<std::uint64_t>(word_at(file, at), file.size());
    const std::uint64_t size = std::min<std::uint64_t>(word_at(file, at + 8), file.size() - begin);
    set_word(file, at + offsetof(rf::TokenChunk, checksum), hash_of(file, begin, size));
  }
  set_word(file, trailer + kDirectoryChecksum, hash_of(file, directory, trailer - directory));
  set_own_checksum(file, trailer, kTrailerBytes, kTrailerChecksum);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  std::string bytes(reinterpret_cast<const char*>(data), size);
  repair_checksums(bytes);
  const rotary::fuzz::InputFile file(bytes);
  try {
    const rf::TokenCache cache(file.path());
    rf::TokenDocument document;
    for (std::uint64_t i = 0; i < cache.num_documents(); ++i) {
      cache.read(i, document);
      const auto is_token = [&](std::int32_t id) {
        return id >= 0 && id < cache.vocabulary_size();
      };
      if (!std::ranges::all_of(document.ids, is_token)) std::abort();
    }
  } catch (const rotary::IoError&) {
  }
  return 0;
}
