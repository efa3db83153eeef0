// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

/// Tokens and their ids: a vocab.txt with one token per line, ids from 0.
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

/// Ids of the special tokens; kNoToken for those that the vocabulary lacks.
struct SpecialIds {
  std::int32_t pad = kNoToken;
  std::int32_t unknown = kNoToken;
  std::int32_t cls = kNoToken;
  std::int32_t sep = kNoToken;
  std::int32_t mask = kNoToken;
};

/// [PAD] [UNK] [CLS] [SEP] [MASK], in the order of SpecialIds.
std::span<const std::string_view> special_tokens() noexcept;

/// Immutable and thread-safe.
class Vocabulary {
 public:
  /// Throws IoError with path and line: no such file, invalid UTF-8, an empty line, a repeated
  /// token.
  static Vocabulary load(const std::filesystem::path& path);
  static Vocabulary parse(std::string_view lines, const std::string& source);
  /// `source` is the name in errors, whose line numbers begin at 1.
  explicit Vocabulary(std::vector<std::string> tokens, std::string source = "vocabulary");

  Vocabulary(Vocabulary&&) = default;
  Vocabulary& operator=(Vocabulary&&) = default;
  ~Vocabulary() = default;
  Vocabulary(const Vocabulary&) = delete;
  Vocabulary& operator=(const Vocabulary&) = delete;

  std::int32_t size() const noexcept { return static_cast<std::int32_t>(tokens_.size()); }
  /// kNoToken if the vocabulary lacks it.
  std::int32_t id(std::string_view token) const noexcept;
  /// Throws std::invalid_argument for an id out of range.
  const std::string& token(std::int32_t id) const;
  const SpecialIds& special() const noexcept { return special_; }
  bool is_special(std::int32_t id) const noexcept;
  /// The file, or the name given.
  const std::string& source() const noexcept { return source_; }
  /// Equal for the same tokens in the same order.
  std::uint64_t fingerprint() const noexcept { return fingerprint_; }

  /// Writes a file for load(), atomically.
  void save(const std::filesystem::path& path) const;

 private:
  std::string source_;
  std::vector<std::string> tokens_;
  std::unordered_map<std::string_view, std::int32_t> ids_;
  SpecialIds special_;
  std::uint64_t fingerprint_ = 0;
};

}  // namespace rotary::roformer
