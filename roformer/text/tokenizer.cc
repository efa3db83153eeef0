// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

#include "roformer/text/tokenizer.h"

#include <limits>
#include <stdexcept>
#include <utility>

#include "roformer/text/hash.h"

namespace rotary::roformer {
namespace {

/// The special token at text[at]; empty if there is none.
std::string_view special_at(std::string_view text, std::size_t at) noexcept {
  for (const std::string_view token : special_tokens()) {
    if (text.substr(at).starts_with(token)) return token;
  }
  return {};
}

}  // namespace

void Tokens::clear() noexcept {
  ids.clear();
  spans.clear();
  words.clear();
}

void Tokens::push_back(std::int32_t id, TextSpan span, std::uint32_t word) {
  ids.push_back(id);
  spans.push_back(span);
  words.push_back(word);
}

Tokenizer::Tokenizer(Vocabulary vocabulary, SpecialText special_text, std::uint64_t fingerprint)
    : vocabulary_(std::move(vocabulary)),
      special_text_(special_text),
      fingerprint_(mix(fingerprint ^ vocabulary_.fingerprint()) +
                   static_cast<std::uint64_t>(special_text)) {}

void Tokenizer::tokenize(std::string_view text, Tokens& out) const {
  if (text.size() >= std::numeric_limits<std::uint32_t>::max()) {
    throw std::invalid_argument("[tokenize] a text must be below 4 GiB, got " +
                                std::to_string(text.size()) + " bytes");
  }
  out.clear();
  const auto next_word = [&] { return out.words.empty() ? 0 : out.words.back() + 1; };
  std::size_t done = 0;
  const auto append_until = [&](std::size_t end) {
    if (end > done) {
      append(text.substr(done, end - done), static_cast<std::uint32_t>(done), next_word(), out);
    }
    done = end;
  };
  if (special_text_ == SpecialText::kRecognize) {
    for (std::size_t at = text.find('['); at != std::string_view::npos; at = text.find('[', at)) {
      const std::string_view token = special_at(text, at);
      const std::int32_t id = token.empty() ? kNoToken : vocabulary_.id(token);
      if (id == kNoToken) {
        ++at;
        continue;
      }
      append_until(at);
      at += token.size();
      out.push_back(id, {static_cast<std::uint32_t>(done), static_cast<std::uint32_t>(at)},
                    next_word());
      done = at;
    }
  }
  append_until(text.size());
}

Tokens Tokenizer::tokenize(std::string_view text) const {
  Tokens out;
  tokenize(text, out);
  return out;
}

std::string Tokenizer::decode(std::span<const std::int32_t> ids) const {
  std::string out;
  for (const std::int32_t id : ids) {
    static_cast<void>(vocabulary_.token(id));
    if (!vocabulary_.is_special(id)) append_text(id, out);
  }
  return out;
}

}  // namespace rotary::roformer
