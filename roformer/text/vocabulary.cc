// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

#include "roformer/text/vocabulary.h"

#include <algorithm>
#include <array>
#include <limits>
#include <stdexcept>
#include <utility>

#include "io/file_reader.h"
#include "io/pending_file.h"
#include "roformer/text/hash.h"
#include "roformer/text/lines.h"
#include "roformer/text/unicode.h"
#include "rotary/error.h"

namespace rotary::roformer {
namespace {

constexpr std::size_t kMaxVocabularyMebibytes = 256;

constexpr std::array<std::string_view, 5> kSpecialTokens{"[PAD]", "[UNK]", "[CLS]", "[SEP]",
                                                         "[MASK]"};

bool is_utf8(std::string_view text) noexcept {
  for (std::size_t at = 0; at < text.size();) {
    const CodePoint c = decode_at(text, at);
    if (c.value == kReplacement && c.size == 1) return false;
    at += c.size;
  }
  return true;
}

}  // namespace

std::span<const std::string_view> special_tokens() noexcept { return kSpecialTokens; }

Vocabulary Vocabulary::load(const std::filesystem::path& path) {
  return parse(internal::read_small_file(path, kMaxVocabularyMebibytes), path.string());
}

Vocabulary Vocabulary::parse(std::string_view lines, const std::string& source) {
  std::vector<std::string> tokens;
  for_each_line(lines, [&](std::string_view line, std::size_t) { tokens.emplace_back(line); });
  return Vocabulary(std::move(tokens), source);
}

Vocabulary::Vocabulary(std::vector<std::string> tokens, std::string source)
    : source_(std::move(source)), tokens_(std::move(tokens)) {
  if (tokens_.empty()) throw IoError(source_, IoError::kNoOffset, "the vocabulary has no tokens");
  if (tokens_.size() > std::numeric_limits<std::int32_t>::max()) {
    throw IoError(source_, IoError::kNoOffset, "the vocabulary has more than 2^31 - 1 tokens");
  }
  ids_.reserve(tokens_.size());
  for (std::size_t i = 0; i < tokens_.size(); ++i) {
    const std::string& token = tokens_[i];
    if (token.empty()) fail_at_line(source_, i + 1, "an empty token");
    if (!is_utf8(token)) fail_at_line(source_, i + 1, "a token that is not UTF-8");
    const auto [at, added] = ids_.emplace(token, static_cast<std::int32_t>(i));
    if (!added) {
      fail_at_line(
          source_, i + 1,
          in_quotes(token) + " stands in line " + std::to_string(at->second + 1) + " already");
    }
    fingerprint_ = hash_bytes(token, fingerprint_);
  }
  special_ = {id(kSpecialTokens[0]), id(kSpecialTokens[1]), id(kSpecialTokens[2]),
              id(kSpecialTokens[3]), id(kSpecialTokens[4])};
}

std::int32_t Vocabulary::id(std::string_view token) const noexcept {
  const auto at = ids_.find(token);
  return at != ids_.end() ? at->second : kNoToken;
}

const std::string& Vocabulary::token(std::int32_t id) const {
  if (id < 0 || id >= size()) {
    throw std::invalid_argument("[Vocabulary] token number must be below " +
                                std::to_string(size()) + ", got " + std::to_string(id));
  }
  return tokens_[static_cast<std::size_t>(id)];
}

bool Vocabulary::is_special(std::int32_t id) const noexcept {
  return id != kNoToken && (id == special_.pad || id == special_.unknown || id == special_.cls ||
                            id == special_.sep || id == special_.mask);
}

void Vocabulary::save(const std::filesystem::path& path) const {
  internal::PendingFile file(path);
  std::string lines;
  for (const std::string& token : tokens_) lines.append(token).append("\n");
  file.append(lines.data(), lines.size());
  file.commit_durably();
}

}  // namespace rotary::roformer
