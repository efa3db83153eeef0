// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

/// Tokens and their numbers: a vocab.txt, one token a line, the first is 0.
///
///   const auto vocabulary = rotary::roformer::Vocabulary::load("vocab.txt");
///   vocabulary.id("[MASK]");      // 103, or kNoToken
///   vocabulary.token(103);        // "[MASK]"
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace rotary::roformer {

inline constexpr std::int32_t kNoToken = -1;

/// Numbers of the tokens that stand for no text; kNoToken where the vocabulary has none.
struct SpecialIds {
  std::int32_t pad = kNoToken;
  std::int32_t unknown = kNoToken;
  std::int32_t cls = kNoToken;
  std::int32_t sep = kNoToken;
  std::int32_t mask = kNoToken;
};

/// [PAD] [UNK] [CLS] [SEP] [MASK], in the order of SpecialIds.
std::span<const std::string_view> special_tokens() noexcept;

/// Immutable; any number of threads may read one.
class Vocabulary {
 public:
  /// Throws IoError with path and line: no such file, not UTF-8, an empty line, a token twice.
  static Vocabulary load(const std::filesystem::path& path);
  static Vocabulary parse(std::string_view lines, const std::string& source);
  /// `source` names the vocabulary in errors, which count tokens from 1.
  explicit Vocabulary(std::vector<std::string> tokens, std::string source = "vocabulary");

  Vocabulary(Vocabulary&&) = default;
  Vocabulary& operator=(Vocabulary&&) = default;
  ~Vocabulary() = default;
  Vocabulary(const Vocabulary&) = delete;
  Vocabulary& operator=(const Vocabulary&) = delete;

  std::int32_t size() const noexcept { return static_cast<std::int32_t>(tokens_.size()); }
  /// kNoToken where there is none.
  std::int32_t id(std::string_view token) const noexcept;
  /// Throws std::invalid_argument for a number out of range.
  const std::string& token(std::int32_t id) const;
  const SpecialIds& special() const noexcept { return special_; }
  bool is_special(std::int32_t id) const noexcept;
  /// Where it was read from.
  const std::string& source() const noexcept { return source_; }
  /// Equal for equal tokens in equal order.
  std::uint64_t fingerprint() const noexcept { return fingerprint_; }

  /// Writes what load() reads. The file appears under its name only when it is complete.
  void save(const std::filesystem::path& path) const;

 private:
  std::string source_;
  std::vector<std::string> tokens_;
  std::unordered_map<std::string_view, std::int32_t> ids_;
  SpecialIds special_;
  std::uint64_t fingerprint_ = 0;
};

}  // namespace rotary::roformer
